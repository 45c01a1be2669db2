"""The server stops, crashes or loses the slot's WAL; the relay goes on, or says why it cannot."""

import pytest

from tests.integration.relaying.harness import Outbox
from tests.servers.postgres import PostgresServer, StopMode
from walrelay.errors import Fatal


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_restart_of_the_server_neither_loses_nor_repeats(
    own_server: PostgresServer, own_outbox: Outbox, mode: StopMode
) -> None:
    with own_outbox.relay() as relay:
        own_outbox.write(1, 2, 3)
        assert own_outbox.values(relay) == [b"1", b"2", b"3"]
        end = own_outbox.end_of_wal()
        relay.confirms(end)
        own_server.stop(mode)
        own_server.start()
        relay.streams(times=2)
        assert own_outbox.watcher.starts[1] >= end  # by its own bookmark: the server may have forgotten
        own_outbox.write(4)
        assert own_outbox.values(relay) == [b"1", b"2", b"3", b"4"]
    assert len(own_outbox.broker.offered) == 4 + 2  # and two sentinels


def test_after_a_crash_a_new_process_repeats_what_the_server_forgot_in_order(
    own_server: PostgresServer, own_outbox: Outbox
) -> None:
    with own_outbox.relay() as relay:
        own_outbox.write(1, 2)
        assert own_outbox.values(relay) == [b"1", b"2"]
    forgotten = own_outbox.confirmed
    own_server.restart("immediate")
    assert own_outbox.confirmed < forgotten
    own_outbox.write(3)
    with own_outbox.relay() as relay:
        assert own_outbox.values(relay) == [b"1", b"2", b"1", b"2", b"3"]


def test_a_server_that_shuts_down_does_not_wait_for_receipts(own_server: PostgresServer, own_outbox: Outbox) -> None:
    own_outbox.broker.withhold()
    with own_outbox.relay() as relay:
        own_outbox.write(1, 2)
        relay.offers(2)
        own_server.stop("fast", timeout=5)
        relay.wait_until(lambda: own_outbox.watcher.retries, "the relay to notice")
        own_server.start()
        own_outbox.broker.release()
        assert own_outbox.values(relay) == [b"1", b"2"]


def test_a_relay_whose_server_is_gone_can_be_stopped(own_server: PostgresServer, own_outbox: Outbox) -> None:
    with own_outbox.relay() as relay:
        relay.streams()
        own_server.stop("immediate")
        relay.stop()
    own_server.start()


def test_a_lost_slot_stops_the_relay_and_is_not_made_again(own_server: PostgresServer, own_outbox: Outbox) -> None:
    own_outbox.write(1)
    _lose(own_server, own_outbox)
    error = own_outbox.failure()
    assert "cannot be read any more" in str(error)
    for told in (
        "max_slot_wal_keep_size",
        "can no longer be streamed",
        "still in the outbox table",
        "walrelay recover",
    ):
        assert told in error.hint.replace("\n", " ")
    with pytest.raises(Fatal, match="cannot be read any more"):
        own_outbox.init()


def _lose(server: PostgresServer, outbox: Outbox) -> None:
    """Lets the server remove WAL that the slot needs."""
    server.configure(max_slot_wal_keep_size="16MB")
    try:
        for _ in range(5):
            server.execute("SELECT pg_logical_emit_message(false, 'filling', ''), pg_switch_wal()")
        server.execute("CHECKPOINT")
        assert outbox.slot("wal_status") == "lost"
    finally:
        server.configure(max_slot_wal_keep_size=None)
