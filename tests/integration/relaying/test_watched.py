"""Whoever watches a relay and fails ends nothing: each of them in turn, in a process as `walrelay run` has it."""

import os
import signal
from collections.abc import Iterator, Sequence
from threading import Thread
from typing import Any

import pytest

from tests.integration.relaying.harness import Outbox
from tests.servers.database import Database, Postgres
from tests.servers.waiting import wait_until
from walrelay.cli import run
from walrelay.control.activity import ActivityObserver
from walrelay.observe import Happening
from walrelay.observe.numbers import RelayNumbers
from walrelay.relay.spread import Seat
from walrelay.telemetry.logs import LogObserver
from walrelay.telemetry.otlp.traces import TraceObserver

OVER = 90.0  # seconds: nothing here takes as long
WATCHED: dict[str, Any] = {"http": {"listen": "127.0.0.1:0"}, "otlp": {"endpoint": "http://127.0.0.1:9"}}


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.fixture
def outboxes(database: Database, postgres: Postgres) -> Iterator[list[Outbox]]:
    another = postgres.create_database()
    yield [Outbox(each, "binary", **WATCHED) for each in (database, another)]
    another.drop()


def fails(self: object, happening: Happening) -> None:
    raise OSError("no space left on device")


def publish_and_stop(outboxes: Sequence[Outbox]) -> None:
    try:
        for each in outboxes:
            each.write(1, 2, 3)
        wait_until(lambda: all(len(each.broker.durable) == 3 for each in outboxes), OVER, "everything to be durable")
    finally:
        os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("broken", [LogObserver, RelayNumbers, TraceObserver, ActivityObserver, Seat])
def test_an_observer_that_fails_ends_no_relay(
    outboxes: list[Outbox], monkeypatch: pytest.MonkeyPatch, broken: type
) -> None:
    for each in outboxes:
        each.init()
    monkeypatch.setattr(broken, "saw", fails)
    relays = run._Relays({each.wiring.slot: each.wiring for each in outboxes}, False, outboxes[0].settings, 0)
    other = Thread(target=publish_and_stop, args=[outboxes])
    other.start()
    assert relays.run() == 0
    other.join()
    assert [len(each.broker.durable) for each in outboxes] == [3, 3]
