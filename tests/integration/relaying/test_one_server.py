"""One server, one history: where a DSN leads to two, or to one that is promoted meanwhile, nothing is skipped."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from time import sleep
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from tests.conftest import PostgresMaker, ProxyMaker, StandbyMaker
from tests.integration.relaying.cleaning import clean
from tests.integration.relaying.harness import Outbox
from tests.servers.database import Database, Postgres
from tests.servers.postgres import PostgresServer
from tests.servers.standby import Standby
from tests.servers.waiting import wait_until
from walrelay.errors import Disconnected, Fatal
from walrelay.lsn import LSN
from walrelay.model import RelayPosition, System
from walrelay.operations import recovery
from walrelay.postgres import connect
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.history import server_history
from walrelay.postgres.locks import lock_key
from walrelay.postgres.slots import new_slot
from walrelay.postgres.snapshot import View
from walrelay.source.peek import Peek, temporary_stream
from walrelay.source.positions import TablePositions
from walrelay.source.stream import Timing
from walrelay.table.confirmed import confirmed_rows
from walrelay.wire.commands import pgoutput_options, start_replication
from walrelay.wire.frames import status_update

WITH_FAILOVER_SLOTS = 18
_END = "SELECT pg_current_wal_lsn()::text"


class Pair:
    """An outbox on a primary whose slot a standby has."""

    def __init__(self, primary: PostgresServer, standby: Standby, **sections: Any) -> None:
        self.primary, self.standby = primary, standby
        self.database = primary.create_database()
        self.copy = Database(standby, self.database.name)
        self.on_primary = Outbox(self.database, "text", **sections, source={"failover": True})
        self.on_primary.init()
        self.slot = self.on_primary.settings.source.slot
        with self.on_primary.relay() as relay:
            self.on_primary.write("before")
            relay.wait_until(lambda: self.on_primary.broker.durable, "the first event")
            standby.wait_for_slot(self.slot)
        standby.catch_up()

    def led_to(self, port: int) -> Outbox:
        """The same outbox, where its DSN leads now, and what its process then says."""
        return self.on_primary.under(source={"dsn": make_conninfo(self.database.dsn, port=port)})

    def write_on_standby(self, *values: str) -> None:
        """Once it is promoted."""
        Outbox(self.copy, "text").write(*values)

    def standing(self, server: PostgresServer) -> LSN:
        """Of the slot there."""
        query = "SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = %s"
        ((lsn,),) = server.execute(query, [self.slot])
        return LSN.parse(lsn)

    def published(self) -> list[bytes | None]:
        return [message.value for message in self.on_primary.broker.durable]


@pytest.fixture
def servers(private_postgres: PostgresMaker, standby_of: StandbyMaker) -> tuple[PostgresServer, Standby]:
    primary = private_postgres(major=WITH_FAILOVER_SLOTS)
    return primary, standby_of(primary)


def test_whoever_waits_on_a_standby_does_not_take_its_history_for_that_of_the_primary_it_becomes(
    servers: tuple[PostgresServer, Standby], tmp_path: Path
) -> None:
    """It has published what the standby never got; where that was, the promoted one writes other events."""
    pair = Pair(*servers, position={"keep": "file", "path": str(tmp_path / "position")})
    pair.standby.cut_off()
    with pair.on_primary.relay() as relay:
        pair.on_primary.write(*("lost with the primary" for _ in range(100)))
        relay.confirms(pair.on_primary.end_of_wal())
    pair.primary.stop("immediate")
    with psycopg.connect(pair.copy.dsn, autocommit=True) as another:
        another.execute("SELECT pg_advisory_lock(%s)", [lock_key(pair.slot)])
        on_standby = pair.led_to(pair.standby.port)
        with on_standby.relay() as relay:
            relay.wait_until(lambda: on_standby.watcher.retries, "the relay to see where it is")
            assert "the server is a standby" in on_standby.watcher.retries[0]
            pair.standby.promote()
            pair.write_on_standby("new 1", "new 2")
            pair.copy.execute("CREATE TABLE other AS SELECT repeat('x', 1000) FROM generate_series(1, 100)")
            another.close()
            relay.streams()
            pair.write_on_standby("later")
            relay.wait_until(lambda: b'"later"' in pair.published(), "what is written later")
            assert pair.published()[-3:] == [b'"new 1"', b'"new 2"', b'"later"']
            assert any("consumers have seen what the database has not" in said for said in on_standby.watcher.notices)


def test_a_stream_from_one_server_is_not_begun_with_the_answers_of_another(
    servers: tuple[PostgresServer, Standby], proxy: ProxyMaker
) -> None:
    """The old primary is still there, and has confirmed what on the new one are other events."""
    pair = Pair(*servers)
    pair.standby.promote()
    with pair.on_primary.relay() as relay:
        pair.on_primary.write(*("of the old primary" for _ in range(100)))
        relay.confirms(pair.on_primary.end_of_wal())
    pair.write_on_standby("new 1", "new 2")
    before, published = pair.standing(pair.standby), len(pair.published())
    way = proxy(pair.standby.port)
    way.lead_to(pair.standby.port, pair.primary.port, pair.standby.port)
    astray = pair.led_to(way.port)
    with astray.relay() as relay:
        relay.streams()
        (said,) = astray.watcher.retries
        assert f"one connection ended on 127.0.0.1:{pair.standby.port}" in said
        assert f"the next on 127.0.0.1:{pair.primary.port}" in said
        assert astray.watcher.starts == [before]
        relay.wait_until(lambda: len(pair.published()) == published + 2, "what is new on the new primary")
    assert pair.published()[published:] == [b'"new 1"', b'"new 2"']


def test_two_standbys_that_give_their_timelines_one_number_are_not_taken_for_one(
    private_postgres: PostgresMaker, standby_of: StandbyMaker, tmp_path: Path
) -> None:
    """The first is lost before the second hears of it; where its events were, the second has others."""
    primary = private_postgres(major=WITH_FAILOVER_SLOTS)
    first, second = standby_of(primary), standby_of(primary, slot="standby_2")
    pair = Pair(primary, first, position={"keep": "file", "path": str(tmp_path / "position")})
    with pair.on_primary.relay() as relay:
        relay.streams()
        second.wait_for_slot(pair.slot)
    second.cut_off()
    pair.on_primary.write("the second does not have")
    first.catch_up()
    primary.stop("immediate")
    first.promote()
    on_first = pair.led_to(first.port)
    with on_first.relay() as relay:
        pair.write_on_standby(*("of the first" for _ in range(100)))
        published = LSN.parse(first.execute(_END)[0][0])
        relay.wait_until(lambda: pair.standing(first) >= published, "the first to be told")
    first.stop("immediate")
    second.promote()
    database = Database(second, pair.database.name)
    assert _timeline(second) == "00000002"
    Outbox(database, "text").write("new 1", "new 2")
    assert LSN.parse(second.execute(_END)[0][0]) < published
    database.execute("CREATE TABLE other AS SELECT repeat('x', 1000) FROM generate_series(1, 1000)")
    assert LSN.parse(second.execute(_END)[0][0]) > published
    on_second = pair.led_to(second.port)
    plan = recovery.plan_recovery(on_second.wiring, recovery.RecoveryRequest(recall=0, replace=True))
    assert any("of timeline 2 (from" in told and "not in the history of this server" in told for told in plan.published)
    with on_second.relay() as relay:
        relay.wait_until(lambda: b'"new 2"' in pair.published(), "what is new on the second")
    assert pair.published()[-2:] == [b'"new 1"', b'"new 2"']
    assert any("consumers have seen what it does not have" in said for said in on_second.watcher.notices)


def _timeline(server: PostgresServer) -> str:
    ((segment,),) = server.execute("SELECT pg_walfile_name(pg_current_wal_lsn())")
    return str(segment)[:8]


@pytest.mark.parametrize("way", ["text"])
def test_a_slot_in_its_servers_future_is_refused_and_recover_makes_it_anew(outbox: Outbox) -> None:
    """PostgreSQL believes any position that it is told, and would send nothing until it got there."""
    outbox.write(1)
    with outbox.relay() as relay:
        assert outbox.values(relay) == [b"1"]
    source = outbox.settings.source
    future = LSN(outbox.end_of_wal() + 2**30)
    with closing(connect.replication(outbox.database.dsn)) as reader:
        connect.answer(
            reader, start_replication(source.slot, LSN(0), pgoutput_options(source.publication, binary=False))
        )
        reader.pgconn.put_copy_data(status_update(write=future, flush=future, sent_at=0, reply_requested=False))
        reader.pgconn.flush()
        wait_until(lambda: outbox.confirmed == future, 10, "the server to believe it")
    outbox.write(2)
    error = outbox.failure()
    assert f"is at {future}, but this server's WAL ends at" in str(error)
    assert "`walrelay recover --replace`" in error.hint
    with pytest.raises(Fatal, match="but this server's WAL ends at"):
        clean(outbox)
    ahead = pytest.raises(Fatal, match="but this server's WAL ends at")
    with Catalog(outbox.database.dsn) as catalog, View(outbox.database.dsn, catalog) as view, ahead:
        confirmed_rows(catalog, view, source.slot, 0, sleep)
    outbox.recover(replace=True)
    with outbox.relay() as relay:
        assert b"2" in outbox.values(relay)


def test_a_promoted_standby_that_has_the_slot_but_not_the_row_begins_where_the_slot_stands(
    servers: tuple[PostgresServer, Standby],
) -> None:
    """The row's own WAL comes after the position that it tells of; the slot gets there by another connection."""
    pair = Pair(*servers, position={"keep": "table"})
    query = "SELECT system_identifier, timeline, lsn::text, xmin_xid::text FROM walrelay.positions"
    (earlier,) = pair.database.execute(query)
    with pair.on_primary.relay() as relay:
        pair.on_primary.write("published, and the row of its position is lost")
        relay.confirms(pair.on_primary.end_of_wal())
        pair.standby.catch_up()
        pair.standby.wait_for_slot(pair.slot)
    end = pair.standing(pair.standby)
    wait_until(lambda: pair.standing(pair.standby) > LSN.parse(earlier[2]), 40, "the slot to be past the row")
    pair.primary.stop("immediate")
    pair.standby.promote()
    pair.copy.execute(  # what the lost end of the WAL leaves behind
        "UPDATE walrelay.positions SET (system_identifier, timeline, lsn, xmin_xid) ="
        " (%s::text, %s::int4, %s::pg_lsn, %s::text::xid8)",
        earlier,
    )
    after = pair.led_to(pair.standby.port)
    with after.relay() as relay:
        relay.streams()
        pair.write_on_standby("later")
        relay.wait_until(lambda: b'"later"' in pair.published(), "what is written later")
    assert after.watcher.starts[0] >= end
    (said,) = after.watcher.notices
    assert "had the slot before it had the row" in said


def test_a_row_survives_a_crash_where_the_database_does_not_wait_for_its_disk(private_postgres: PostgresMaker) -> None:
    """The slot's position is saved by itself, and would be ahead of the row."""
    server = private_postgres(wal_writer_delay="10s")
    database = server.create_database()
    outbox = Outbox(database, "text", position={"keep": "table"})
    outbox.init()
    server.execute(f"ALTER DATABASE {database.name} SET synchronous_commit = off")
    kept = RelayPosition(System("7301", 1), outbox.settings.source.slot, LSN(4711), xmin=700)
    with Catalog(database.dsn) as catalog:
        assert TablePositions(catalog, kept.slot, None).keep(kept) == kept.lsn
    server.restart("immediate")
    with Catalog(database.dsn) as catalog:
        assert TablePositions(catalog, kept.slot, None).last() == kept


def test_a_slot_is_recovered_on_a_server_that_does_not_know_any_more_when_it_was_promoted(
    private_postgres: PostgresMaker, tmp_path: Path
) -> None:
    """Somebody removed the history of its timeline."""
    server = private_postgres()
    outbox = Outbox(server.create_database(), "text", position={"keep": "file", "path": str(tmp_path / "position")})
    outbox.init()
    outbox.write("before the promotion")
    with outbox.relay() as relay:
        relay.confirms(outbox.end_of_wal())
    server.stop()
    (server.data / "standby.signal").touch()
    server.start()
    server.execute("SELECT pg_promote()")
    wait_until(lambda: server.execute("SELECT NOT pg_is_in_recovery()") == [(True,)], 30, "the promotion")
    (server.data / "pg_wal" / "00000002.history").unlink()
    server.execute("SELECT pg_drop_replication_slot(%s)", [outbox.settings.source.slot])
    outbox.write("after it")
    assert outbox.recover().rows == 1
    outbox.write("later")
    with outbox.relay() as relay:
        assert outbox.values(relay) == [b'"before the promotion"', b'"after it"', b'"later"']


OTHERS: dict[str, Callable[[str, Catalog], object]] = {
    "view": View,
    "history": server_history,
    "new slot": lambda dsn, beside: new_slot(dsn, beside, "astray", "pgoutput", failover=False, patience=1).__enter__(),
    "peek": lambda dsn, beside: next(Peek(dsn, beside, "astray", "walrelay", [], print).frames(1)),
    "temporary slot": lambda dsn, beside: temporary_stream(dsn, "pgoutput", "walrelay", [], Timing(), beside, print),
}


@pytest.mark.parametrize("other", OTHERS)
def test_no_other_connection_is_used_beside_a_catalog_of_another_server(
    postgres: Postgres, postgres18: PostgresServer, other: str
) -> None:
    """What recover, init --backfill, replay, audit, skip and tail read must be of the server that they ask besides."""
    with Catalog(postgres.dsn) as catalog, pytest.raises(Disconnected, match="the DSN leads to two servers"):
        OTHERS[other](postgres18.dsn, catalog)
    assert postgres18.slots("postgres") == set()
