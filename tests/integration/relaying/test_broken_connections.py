"""Only the connection to PostgreSQL broke: the sink goes on alone, but never for longer than a moment."""

from collections.abc import Iterator
from time import monotonic

import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.integration.relaying.broker import _Sink
from tests.integration.relaying.harness import Outbox
from tests.servers.proxy import Proxy
from walrelay.relay import run


@pytest.fixture
def closings(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """When a sink was closed."""
    times: list[float] = []
    close = _Sink.close

    def noted(sink: _Sink) -> None:
        times.append(monotonic())
        close(sink)

    monkeypatch.setattr(_Sink, "close", noted)
    return times


@pytest.fixture
def proxied(outbox: Outbox) -> Iterator[tuple[Outbox, Proxy]]:
    """An outbox whose relay comes through a proxy."""
    given = conninfo_to_dict(outbox.database.dsn)
    with Proxy((str(given["host"]), int(str(given["port"])))) as proxy:
        dsn = make_conninfo(outbox.database.dsn, host="127.0.0.1", port=str(proxy.port))
        yield outbox.under(source={"dsn": dsn}, shutdown_timeout=0), proxy


def test_a_sink_is_let_go_of_in_time_though_the_next_connection_takes_longer(
    proxied: tuple[Outbox, Proxy], closings: list[float]
) -> None:
    """New connections are accepted and nobody answers: a firewall, a dead load balancer."""
    outbox, proxy = proxied
    outbox.broker.withhold()
    with outbox.relay() as relay:
        outbox.write(1)
        relay.offers(1)
        proxy.half_open()
        broken = monotonic()
        proxy.cut()
        relay.wait_until(lambda: closings, "the sink to be let go of")
        assert run._HOLD <= closings[0] - broken < run._HOLD + 6  # a connection takes 10 s to be given up
        proxy.resume()
        proxy.cut()
        outbox.broker.release()
        assert outbox.values(relay) == [b"1"]


def test_a_sink_is_kept_over_a_connection_that_comes_back_at_once(
    proxied: tuple[Outbox, Proxy], closings: list[float]
) -> None:
    outbox, proxy = proxied
    outbox.broker.withhold()
    with outbox.relay() as relay:
        outbox.write(1)
        relay.offers(1)
        proxy.cut()
        relay.streams(times=2)
        assert closings == []
        outbox.broker.release()
        assert outbox.values(relay) == [b"1"]
        assert [message.value for message in outbox.broker.offered].count(b"1") == 1
