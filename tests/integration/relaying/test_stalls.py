"""The broker stalls: the database does not notice, for as long as it must not."""

from collections import Counter
from contextlib import closing
from time import monotonic
from typing import Any

import pytest
from psycopg.conninfo import make_conninfo

from tests.integration.relaying.harness import PATIENCE, Outbox, Relaying, header, relaying
from tests.servers.postgres import PostgresServer
from tests.servers.waiting import wait_until
from walrelay.lsn import LSN
from walrelay.postgres.locks import lock_key
from walrelay.source.leadership import lead_at_once
from walrelay.source.stream import Stream, Timing


def pile_up(outbox: Outbox) -> None:
    """More than the sockets between server and relay hold; compressed in the WAL, and sent in full."""
    for _ in range(30):
        outbox.database.execute(
            "INSERT INTO outbox (aggregate_type, aggregate_id, type, payload)"
            " SELECT 'order', n::text, 'big', to_jsonb(repeat('x', 100000)) FROM generate_series(1, 10) n"
        )


def seconds_pass(seconds: float) -> None:
    """The one thing to wait for here is that nothing happens."""
    since = monotonic()
    wait_until(lambda: monotonic() - since > seconds, 2 * seconds, f"{seconds} s to pass")


def lets_go(outbox: Outbox, relay: Relaying) -> None:
    """Waits until the relay has let go of the stream."""
    relay.wait_until(lambda: outbox.watcher.notices and outbox.slot("active_pid") is None, "the slot to be free")


def test_a_stall_longer_than_wal_sender_timeout_does_not_cost_the_connection(every_way: list[Outbox]) -> None:
    dsn = make_conninfo(every_way[0].database.dsn, options="-c wal_sender_timeout=1500ms")
    outboxes = [outbox.under(source={"dsn": dsn}) for outbox in every_way]
    pile_up(outboxes[0])
    for outbox in outboxes:
        outbox.broker.capacity = 3
        outbox.broker.withhold()
    with relaying(outboxes) as relays:
        for relay in relays:
            relay.offers(3)
        pids = [outbox.slot("active_pid") for outbox in outboxes]
        seconds_pass(4)
        assert [outbox.slot("active_pid") for outbox in outboxes] == pids
        for outbox, relay in zip(outboxes, relays, strict=True):
            outbox.broker.release()
            assert len(outbox.messages(relay)) == 300
        assert [outbox.slot("active_pid") for outbox in outboxes] == pids
    assert [outbox.watcher.retries for outbox in outboxes] == [[]] * len(outboxes)


def test_a_broker_without_receipts_costs_few_status_updates(
    every_way: list[Outbox], monkeypatch: pytest.MonkeyPatch
) -> None:
    """While write and flush are both behind, the server asks at every turn; answering each time makes a storm."""
    sent: list[Stream] = []
    send = Stream._send

    def counted(stream: Stream, *arguments: Any, **options: Any) -> bool:
        sent.append(stream)
        return send(stream, *arguments, **options)

    monkeypatch.setattr(Stream, "_send", counted)
    for outbox in every_way:
        outbox.broker.withhold()
    with relaying([outbox.under(shutdown_timeout=0) for outbox in every_way]) as relays:
        every_way[0].write(1)
        for relay in relays:
            relay.offers(1)
        seconds_pass(3)
        assert len(Counter(sent)) == len(every_way)
        assert max(Counter(sent).values()) < 10


def test_a_relay_that_may_not_read_lets_go_before_it_holds_up_a_checkpoint_for_long(
    own_server: PostgresServer, own_outbox: Outbox
) -> None:
    """The checkpointer waits for the walsender of a slot it gives up; the slot is lost, and that is said."""
    pile_up(own_outbox)
    own_outbox.broker.capacity = 3
    own_outbox.broker.withhold()
    own_server.configure(max_slot_wal_keep_size="16MB")
    try:
        with own_outbox.under(source={"pause_limit": 2}).relay() as relay:
            relay.offers(3)
            for _ in range(5):
                own_server.execute("SELECT pg_logical_emit_message(false, 'filling', ''), pg_switch_wal()")
            since = monotonic()
            own_server.execute("CHECKPOINT")
            assert monotonic() - since < 2 + 20  # without it for wal_sender_timeout, a minute
            assert "cannot be read any more" in str(relay.failure())
    finally:
        own_server.configure(max_slot_wal_keep_size=None)


def test_while_there_is_no_room_the_stream_is_let_go_and_the_lead_kept_and_nothing_comes_twice(
    every_way: list[Outbox],
) -> None:
    """However long it lasts: here for several times the pause after which the stream is let go."""
    pile_up(every_way[0])
    outboxes = [outbox.under(source={"pause_limit": 0.5}) for outbox in every_way]
    for outbox in outboxes:
        outbox.broker.capacity = 3
        outbox.broker.withhold()
    with relaying(outboxes) as relays:
        for outbox, relay in zip(outboxes, relays, strict=True):
            lets_go(outbox, relay)
        seconds_pass(2)
        for outbox, relay in zip(outboxes, relays, strict=True):
            ((free,),) = outbox.database.execute(
                "SELECT pg_try_advisory_lock(%s)", [lock_key(outbox.settings.source.slot)]
            )
            assert not free, "another instance could have led"
            assert len(outbox.broker.offered) == 3
            outbox.broker.release()
            assert len(outbox.messages(relay)) == 300
            ids = [header(message, "id") for message in outbox.broker.offered]
            assert len(ids) == len(set(ids)), "something was published twice"
            assert outbox.watcher.retries == []
            assert (
                "; the stream starts again when there is room; this instance keeps the lead"
                in outbox.watcher.notices[0]
            )


def test_a_relay_without_room_stops_as_soon_as_it_may(every_way: list[Outbox]) -> None:
    pile_up(every_way[0])
    outboxes = [outbox.under(source={"pause_limit": 0.2}, shutdown_timeout=0.5) for outbox in every_way]
    for outbox in outboxes:
        outbox.broker.capacity = 3
        outbox.broker.withhold()
    with relaying(outboxes) as relays:
        for outbox, relay in zip(outboxes, relays, strict=True):
            lets_go(outbox, relay)
            relay.stop()
            assert "stopped, but not cleanly" in outbox.watcher.notices[-1]


def test_a_relay_that_is_frozen_while_it_has_no_room_loses_the_lead(outbox: Outbox) -> None:
    """A frozen process asks nothing; the server must not keep its lead for ever."""
    slot = outbox.settings.source.slot
    dsn = make_conninfo(outbox.database.dsn, options="-c wal_sender_timeout=1000ms")
    with closing(Stream(dsn, slot, f"{slot}_none", Timing(), print)) as stream:
        assert lead_at_once(stream.connection, slot)
        stream.start_stream(LSN(0), outbox.wiring.options(binary=False))
        stream.pause(lambda: False)
        assert outbox.slot("active_pid") is None
        since = monotonic()
        held = True
        while held and monotonic() - since < PATIENCE:
            ((free,),) = outbox.database.execute("SELECT pg_try_advisory_lock(%s)", [lock_key(slot)])
            held = not free
        assert 0.5 < monotonic() - since < PATIENCE
