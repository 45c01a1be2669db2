"""A partitioned outbox: days are made ahead, old ones dropped once everything in them is confirmed."""

import json
from datetime import date, timedelta
from threading import Event, Thread
from time import monotonic
from typing import Any

import psycopg
import pytest

from tests.integration.relaying.cleaning import clean, left
from tests.integration.relaying.harness import Outbox
from tests.servers.choose import Missing, give_up
from tests.servers.database import Database
from tests.servers.waiting import wait_until
from walrelay.ddl import script
from walrelay.errors import Fatal
from walrelay.operations import setup
from walrelay.operations.cleanup import CleanupReport, Session
from walrelay.operations.cleanup.cleanup import Cleanup
from walrelay.postgres.catalog import Catalog
from walrelay.table import days

pytestmark = pytest.mark.parametrize("way", ["text"])  # wal2json reads no partitioned table

DAY = 86_400.0


@pytest.fixture
def outbox(database: Database, way: str) -> Outbox:
    """`walrelay init --partitioned` has run."""
    fresh = Outbox(database, way, source={"publication_check_interval": 0.02})
    init(fresh)
    return fresh


@pytest.fixture
def few_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("walrelay.operations.cleanup.cleanup._ATTEMPTS", 3)


def init(outbox: Outbox) -> dict[str, str]:
    wiring = outbox.wiring
    with Catalog(outbox.wiring.dsn) as catalog:
        steps = setup.plan(catalog, wiring, partitioned=True)
        return {step.what: str(outcome) for step, outcome in setup.apply(catalog, wiring, steps, patience=10)}


def found(outbox: Outbox) -> days.Partitions:
    with Catalog(outbox.wiring.dsn) as catalog:
        return days.partitions(catalog, outbox.wiring.table)


def ago(number: int) -> date:
    return days.today() - timedelta(days=number)


def past(outbox: Outbox, *numbers: int) -> None:
    """Makes the partitions of days that are over, so many days ago."""
    for number in numbers:
        outbox.database.execute(days.NewDays("public", "outbox").day(ago(number)))


def write(outbox: Outbox, payload: object, days_ago: float, connection: psycopg.Connection | None = None) -> None:
    statement = (
        "INSERT INTO outbox (aggregate_type, aggregate_id, type, payload, created_at) VALUES"
        " ('order', '1', 't', %s, date_trunc('day', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC'"
        " + interval '12 h' - make_interval(days => %s))"
    )
    if connection is not None:
        connection.execute(statement, [json.dumps(payload), days_ago])
    else:
        outbox.database.execute(statement, [json.dumps(payload), days_ago])


def tables(outbox: Outbox) -> set[str]:
    rows = outbox.database.execute("SELECT relname FROM pg_class WHERE relname LIKE 'outbox%' AND relkind = 'r'")
    return {str(name) for (name,) in rows}


def table(day: date) -> str:
    return f"outbox_{day:%Y%m%d}"


def test_init_makes_today_and_a_week_and_writers_need_not_know(outbox: Outbox) -> None:
    assert tables(outbox) == {"outbox_default", *(table(ago(-number)) for number in range(8))}
    assert (found(outbox).today, found(outbox).ahead) == (True, 7)
    outbox.database.execute("SELECT walrelay.emit('order', 'o-1', 'placed', '1')")
    outbox.database.execute("SELECT walrelay.emit_and_delete('order', 'o-1', 'placed', '2')")
    assert outbox.database.execute("SELECT tableoid::regclass::text FROM outbox") == [(table(days.today()),)]
    with outbox.relay() as relay:
        assert outbox.values(relay) == [b"1", b"2"]
    assert set(init(outbox).values()) == {"present"}
    assert set(outbox.init().values()) == {"present"}


def test_the_sql_of_a_dry_run_makes_all_of_it(database: Database, way: str) -> None:
    outbox = Outbox(database, way)
    with Catalog(outbox.wiring.dsn) as catalog:
        steps = setup.plan(catalog, outbox.wiring, partitioned=True)
        for step in steps:
            database.execute(step.sql)
    assert found(outbox).ahead == 7


def test_days_that_are_over_and_confirmed_go_as_a_whole_and_rows_of_the_default_one_by_one(outbox: Outbox) -> None:
    past(outbox, 1, 3, 5)
    for number in (0, 1, 3, 4, 5, 5):  # 4 days ago has no partition
        write(outbox, number, number)
    with outbox.relay() as relay:
        assert len(outbox.values(relay)) == 6
        told = clean(outbox, 2 * DAY, dry_run=True)
        assert left(outbox) == [0, 1, 3, 4, 5, 5]
        tally = clean(outbox, 2 * DAY)
        assert left(outbox) == [0, 1]
        assert told.rows == tally.rows == 4
        assert told.dropped == tally.dropped == [f"public.{table(ago(5))}", f"public.{table(ago(3))}"]
        assert {table(ago(3)), table(ago(5))}.isdisjoint(tables(outbox))
        write(outbox, 7, 0)
        assert len(outbox.values(relay)) == 7
        assert outbox.watcher.retries == []


def test_the_coming_days_are_made(outbox: Outbox) -> None:
    outbox.database.execute(f"DROP TABLE {table(ago(-6))}, {table(ago(-7))}")
    assert found(outbox).ahead == 5
    assert clean(outbox, None).made == [str(ago(-6)), str(ago(-7))]
    assert found(outbox).ahead == 7


def test_a_day_that_is_in_the_default_partition_already_stays_there(outbox: Outbox) -> None:
    outbox.database.execute(f"DROP TABLE {table(ago(-3))}")
    write(outbox, "early", -3)
    (note,) = clean(outbox, None).notes
    assert f"no partition for {ago(-3)}: public.outbox_default already has events" in note
    assert left(outbox) == ["early"]


def test_no_writer_waits_while_a_day_is_made(outbox: Outbox) -> None:
    """Their transactions have locks on the outbox, and so a CREATE TABLE ... PARTITION OF would wait for them."""
    outbox.database.execute(f"DROP TABLE {table(ago(-7))}")
    with outbox.database.connect(autocommit=False) as writer:
        write(outbox, "open", 0, writer)
        assert clean(outbox, None).made == [str(ago(-7))]
        write(outbox, "goes on", 0, writer)
        writer.commit()


def test_a_day_with_a_row_that_is_not_confirmed_stays(outbox: Outbox, monkeypatch: pytest.MonkeyPatch) -> None:
    past(outbox, 5)
    write(outbox, "confirmed", 5)
    with outbox.relay() as relay:
        outbox.values(relay)
        with outbox.database.connect(autocommit=False) as writer:
            write(outbox, "of an open transaction", 5, writer)

            def commit(self: Cleanup, cutoff: object) -> None:
                outbox.broker.withhold()
                writer.commit()

            with monkeypatch.context() as patch:
                patch.setattr(Cleanup, "_tell_what_holds_back", commit)  # when the slot has confirmed what it has to
                tally = clean(outbox, DAY)
        assert tally.dropped == []
        assert left(outbox) == ["confirmed", "of an open transaction"]
        outbox.broker.release()
        assert len(outbox.values(relay)) == 2
        assert clean(outbox, DAY).dropped == [f"public.{table(ago(5))}"]


def test_a_row_that_is_written_until_the_day_is_detached_keeps_it_until_it_is_confirmed(
    outbox: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    past(outbox, 5)
    write(outbox, "confirmed", 5)
    detaching = days.detach_statements

    def late(table: str, day: days.Day) -> tuple[str, str]:
        outbox.broker.withhold()
        write(outbox, "late", 5)
        return detaching(table, day)

    with outbox.relay() as relay:
        outbox.values(relay)
        with monkeypatch.context() as patch:
            patch.setattr(days, "detach_statements", late)
            tally = clean(outbox, DAY)
        assert tally.dropped == []
        assert any("stays: 1 of its rows" in note for note in tally.notes)
        assert table(ago(5)) in tables(outbox)
        assert left(outbox) == []
        outbox.broker.release()
        assert outbox.values(relay) == [b'"confirmed"', b'"late"']
        assert clean(outbox, DAY).dropped == [f"public.{table(ago(5))}"]
    assert table(ago(5)) not in tables(outbox)


def test_a_crash_between_detaching_and_dropping_is_made_good_by_the_next_pass(
    outbox: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    past(outbox, 5)
    write(outbox, 5, 5)
    done = Session.at_once

    def crash(self: Session, *statements: str, **given: Any) -> bool:
        if statements[-1].startswith("DROP"):
            raise ConnectionAbortedError
        return done(self, *statements, **given)

    with outbox.relay() as relay:
        outbox.values(relay)
        with monkeypatch.context() as patch:
            patch.setattr(Session, "at_once", crash)
            with pytest.raises(ConnectionAbortedError):
                clean(outbox, DAY)
        assert table(ago(5)) in tables(outbox)
        assert found(outbox).days[0].end > ago(5) + timedelta(days=1)
        tally = clean(outbox, DAY)
    assert (tally.rows, tally.dropped) == (1, [f"public.{table(ago(5))}"])
    assert table(ago(5)) not in tables(outbox)


def test_a_day_that_somebody_detached_for_himself_is_left_alone(outbox: Outbox) -> None:
    past(outbox, 5)
    write(outbox, 5, 5)
    with outbox.relay() as relay:
        outbox.values(relay)
        outbox.database.execute(f"ALTER TABLE outbox DETACH PARTITION {table(ago(5))}")
        assert clean(outbox, DAY).dropped == []
    assert table(ago(5)) in tables(outbox)


@pytest.mark.usefixtures("few_attempts")
def test_whoever_reads_the_outbox_for_long_puts_the_drop_off_and_holds_up_no_writer(outbox: Outbox) -> None:
    past(outbox, 5)
    write(outbox, 5, 5)
    with outbox.relay() as relay, outbox.database.connect(autocommit=False) as reader:
        outbox.values(relay)
        reader.execute("SELECT count(*) FROM outbox")
        tallies: list[CleanupReport] = []
        cleaning = Thread(target=lambda: tallies.append(clean(outbox, DAY)), daemon=True)
        cleaning.start()
        slowest = 0.0
        while cleaning.is_alive():
            begun = monotonic()
            write(outbox, 0, 0)
            slowest = max(slowest, monotonic() - begun)
        assert tallies[0].dropped == []
        assert any("postponed" in note for note in tallies[0].notes)
        assert slowest < 0.5  # the queue behind the lock that is asked for is never longer than a moment
        reader.rollback()
        wait_until(lambda: clean(outbox, DAY).dropped, 10, "the day to be dropped")


def test_a_table_that_is_there_and_not_partitioned_is_refused_before_anything_is_changed(
    database: Database, way: str
) -> None:
    database.execute("CREATE TABLE outbox (id uuid)")
    outbox = Outbox(database, way)
    with pytest.raises(Fatal, match="is not partitioned") as caught:
        init(outbox)
    assert "walrelay docs cleanup" in caught.value.hint
    assert database.execute("SELECT to_regnamespace('walrelay')") == [(None,)]


def test_a_table_is_replaced_by_a_partitioned_one_as_the_docs_say_without_losing_an_event(
    database: Database, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("walrelay.source.slot_source._BUSY_CHECK", 0.1)
    outbox = Outbox(database, way, source={"publication_check_interval": 0.02})
    outbox.init()
    halt = Event()
    written: list[int] = []

    def write_on() -> None:
        with database.connect() as connection:
            while not halt.wait(0.002):
                connection.execute("SELECT walrelay.emit('order', 'o', 't', %s)", [str(len(written))])
                written.append(len(written))

    writer = Thread(target=write_on, daemon=True)
    writer.start()
    with outbox.relay() as relay:
        wait_until(lambda: len(written) > 50, 10, "rows")
        init(outbox.under(outbox={"table": "public.outbox_new"}))
        database.execute(
            "BEGIN; LOCK TABLE outbox IN ACCESS EXCLUSIVE MODE; ALTER TABLE outbox RENAME TO outbox_old;"
            " ALTER TABLE outbox_new RENAME TO outbox; COMMIT"
        )
        error = relay.failure()
    assert "walrelay init" in error.hint
    outbox.init()
    with outbox.relay() as relay:
        wait_until(lambda: len(written) > 200, 10, "more rows")
        halt.set()
        writer.join()
        delivered = dict.fromkeys(outbox.values(relay))  # some twice: the relay stopped before it confirmed them
        assert list(delivered) == [str(number).encode() for number in range(len(written))]
        assert found(outbox).ours
        assert clean(outbox, None).notes == []


def test_partitions_that_walrelay_did_not_make_are_left_as_they_are_and_their_rows_go_one_by_one(
    database: Database, way: str
) -> None:
    outbox = Outbox(database, way, source={"publication_check_interval": 0.02})
    database.execute(
        "CREATE TABLE outbox (id uuid DEFAULT gen_random_uuid(), aggregate_type text, aggregate_id text, type text,"
        " payload jsonb, headers jsonb, topic text, tenant_id text, created_at timestamptz DEFAULT now())"
        " PARTITION BY HASH (aggregate_id)"
    )
    for number in range(3):
        database.execute(
            f"CREATE TABLE part_{number} PARTITION OF outbox FOR VALUES WITH (modulus 3, remainder {number})"
        )
    with pytest.raises(Fatal, match="not by walrelay"):
        init(outbox)
    outbox.init()
    outbox.write(*range(20))
    with outbox.relay() as relay:
        outbox.values(relay)
        tally = clean(outbox)
    assert (tally.rows, tally.made, tally.dropped) == (20, [], [])


@pytest.fixture
def partman(database: Database, way: str) -> Outbox:
    """An outbox whose partitions pg_partman makes, from a schema of its own."""
    available = database.execute("SELECT default_version FROM pg_available_extensions WHERE name = 'pg_partman'")
    if not available:
        give_up(Missing("this PostgreSQL has no pg_partman"))
    outbox = Outbox(database, way, source={"publication_check_interval": 0.02})
    database.execute(script("outbox_days", table="outbox"))
    database.execute("CREATE SCHEMA part_man")
    database.execute("CREATE EXTENSION pg_partman SCHEMA part_man")
    old = int(available[0][0].split(".")[0]) < 5
    how = "p_type => 'native', p_interval => 'daily'" if old else "p_interval => '1 day'"
    database.execute(f"SELECT part_man.create_parent('public.outbox', 'created_at', {how})")
    outbox.init()
    return outbox


def test_what_pg_partman_manages_is_left_to_it(partman: Outbox) -> None:
    write(partman, "in the default partition", 50)
    write(partman, "in a partition", 2)
    with partman.relay() as relay:
        partman.values(relay)
        before = tables(partman)
        tally = clean(partman, DAY)
    assert tables(partman) == before
    assert len(before) > 3
    assert (tally.made, tally.dropped, tally.rows) == ([], [], 1)
    assert left(partman) == ["in a partition"]
    assert any("pg_partman" in note for note in tally.notes)
    with pytest.raises(Fatal, match="not by walrelay"):
        init(partman)
