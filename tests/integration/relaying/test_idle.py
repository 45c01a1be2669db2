"""An outbox where nothing happens, in a database where much does: the slot follows, and overtakes no event."""

from psycopg.conninfo import make_conninfo

from tests.integration.relaying.harness import PATIENCE, Outbox, position, relaying
from tests.servers.database import Postgres
from tests.servers.waiting import wait_until
from walrelay.lsn import LSN

MEGABYTE = 2**20


def insert_elsewhere(outbox: Outbox, megabytes: float) -> LSN:
    """So much WAL for another table, and where WAL ends after it."""
    outbox.database.execute("CREATE TABLE IF NOT EXISTS business (text text)")
    outbox.database.execute(
        "INSERT INTO business SELECT repeat('x', 1000) FROM generate_series(1, %s)", [round(megabytes * 1000)]
    )
    return outbox.end_of_wal()


def retained(outbox: Outbox) -> int:
    """Bytes of WAL that the server keeps for the slot."""
    return int(outbox.slot("pg_current_wal_lsn() - restart_lsn"))


def retained_after_checkpoint(outboxes: list[Outbox]) -> int:
    """The most that is kept for a slot, after another checkpoint, as a busy server has them by itself.

    Each checkpoint logs the running transactions, from which a slot may begin again. One is not enough: if a
    transaction is open at that moment (autovacuum's, say), the slot stays at the one before.
    """
    outboxes[0].database.execute("CHECKPOINT")
    return max(map(retained, outboxes))


def test_the_position_follows_foreign_traffic_within_seconds(every_way: list[Outbox]) -> None:
    with relaying(every_way) as relays:
        for _ in range(2):
            target = insert_elsewhere(every_way[0], 0.1)
            for relay in relays:
                relay.confirms(target, timeout=6)


def test_the_position_follows_the_wal_of_other_databases(every_way: list[Outbox], postgres: Postgres) -> None:
    with relaying(every_way) as relays:
        postgres.execute("CREATE TEMPORARY TABLE t AS SELECT 1")
        target = every_way[0].end_of_wal()
        for relay in relays:
            relay.confirms(target, timeout=6)


def test_an_idle_outbox_frees_the_wal_of_a_busy_database(every_way: list[Outbox]) -> None:
    with relaying(every_way):
        for _ in range(10):
            insert_elsewhere(every_way[0], 20)
            wait_until(lambda: retained_after_checkpoint(every_way) < 32 * MEGABYTE, PATIENCE, "WAL to be freed")


def test_foreign_traffic_does_not_overtake_an_event_without_a_receipt(outbox: Outbox) -> None:
    outbox.broker.withhold()
    often = make_conninfo(outbox.database.dsn, options="-c wal_sender_timeout=2s")  # six times as often it is told
    cut_short = outbox.under(shutdown_timeout=0, source={"dsn": often, "publication_check_interval": 0.05})
    with cut_short.relay() as relay:
        outbox.write(1)
        relay.offers(1)
        event, _ = position(outbox.broker.offered[0])
        target = insert_elsewhere(outbox, 0.1)
        relay.wait_until(lambda: told_as_read(outbox) >= target, "the foreign traffic to be read")
        assert outbox.confirmed <= event < target
        outbox.database.server.execute("SELECT pg_terminate_backend(%s)", [outbox.slot("active_pid")])
        relay.wait_until(lambda: len(cut_short.watcher.starts) >= 2, "the next connection")
        assert outbox.confirmed <= event
    outbox.broker.release()
    with outbox.relay() as relay:
        assert outbox.values(relay) == [b"1"]
    assert [message.value for message in outbox.broker.offered[:2]] == [b"1"] * 2


def told_as_read(outbox: Outbox) -> LSN:
    """How far the relay has told the server that it has read."""
    ((lsn,),) = outbox.database.server.execute(
        "SELECT coalesce(max(write_lsn), '0/0')::text FROM pg_stat_replication r JOIN pg_replication_slots s"
        " ON s.active_pid = r.pid WHERE slot_name = %s",
        [outbox.settings.source.slot],
    )
    return LSN.parse(str(lsn))
