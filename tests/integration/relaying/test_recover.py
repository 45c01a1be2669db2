"""`walrelay recover`: a lost slot is made again, and every row that may not have been published is published."""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from threading import Thread
from typing import Any

import psycopg
import pytest

from tests.integration.relaying.broker import Killed
from tests.integration.relaying.harness import Outbox, header, small, without_sentinels
from tests.servers.database import Database
from tests.servers.postgres import PostgresServer
from tests.servers.waiting import wait_until
from walrelay.errors import Fatal
from walrelay.lsn import LSN
from walrelay.model import RelayPosition, System
from walrelay.operations import recovery
from walrelay.operations.recovery import KeptPosition
from walrelay.postgres import connect
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.history import server_history

Connection = psycopg.Connection[tuple[Any, ...]]

pytestmark = pytest.mark.parametrize("way", ["text"])  # the table is read in one way only


@pytest.fixture
def published(outbox: Outbox) -> Outbox:
    """Rows 0 to 19, which the relay published, and 20 to 29, which it did not; the slot is gone."""
    outbox.write(*range(20))
    with outbox.relay() as relay:
        outbox.messages(relay)
    lose(outbox)
    outbox.write(*range(20, 30))
    return outbox


def lose(outbox: Outbox) -> None:
    outbox.database.execute("SELECT pg_drop_replication_slot(%s)", [outbox.settings.source.slot])


def values(outbox: Outbox) -> Counter[bytes | None]:
    return Counter(message.value for message in without_sentinels(outbox.broker.durable))


def numbers(*numbers: int) -> Counter[bytes | None]:
    return Counter(str(number).encode() for number in numbers)


def position_now(database: Database, xmin: int | None = None) -> RelayPosition:
    """One whose transactions have all ended."""
    ((now, lsn),) = database.execute(
        "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::int8, pg_current_wal_flush_lsn()::text"
    )
    with Catalog(database.dsn) as catalog:
        system = server_history(database.dsn, catalog).system
    return RelayPosition(system, "walrelay", LSN.parse(lsn), xmin=now if xmin is None else xmin)


def kept(position: RelayPosition | None) -> list[KeptPosition]:
    return [KeptPosition("the test's file", lambda: position)]


def test_nothing_is_lost_and_nothing_repeated_where_the_topics_have_what_was_published(published: Outbox) -> None:
    plan = published.recover()
    assert (plan.rows, plan.repeats) == (10, 0)
    published.write(30)
    with published.relay() as relay:
        assert Counter(published.values(relay)) == numbers(*range(31))


def test_what_was_published_comes_again_with_its_id_where_nothing_says_that_it_was(published: Outbox) -> None:
    plan = published.recover(recall=0)
    assert (plan.rows, plan.repeats) == (30, 30)
    assert values(published) == numbers(*range(30), *range(20))
    ids = Counter(header(message, "id") for message in without_sentinels(published.broker.durable))
    assert Counter(ids.values()) == {2: 20, 1: 10}


def test_rows_committed_while_the_slot_is_made_are_recovered(outbox: Outbox, database: Database) -> None:
    """The snapshot of a slot has an xmax below its xmin, and below rows that it shows, if they were committed before
    PostgreSQL began to track commits.
    """
    lose(outbox)
    position = position_now(database)
    with ExitStack() as stack:
        first, second, third = (stack.enter_context(database.connect(autocommit=False)) for _ in range(3))
        awaited(database, first, None)
        recovering = Thread(target=outbox.recover, args=(kept(position),), kwargs={"recall": 0})
        recovering.start()
        stack.callback(recovering.join)
        awaited(database, second, first)
        outbox.write(1)
        first.rollback()
        awaited(database, third, second)
        second.rollback()
        recovering.join(30)
        third.rollback()
    assert values(outbox) == numbers(1)


def awaited(database: Database, opened: Connection, waited_for: Connection | None) -> None:
    """Opens a writing transaction as soon as the new slot waits for the other one."""
    waits = "SELECT 1 FROM pg_locks WHERE locktype = 'transactionid' AND NOT granted AND transactionid::text = %s"
    if waited_for is not None:
        number = transaction(waited_for)
        wait_until(lambda: database.execute(waits, [number]), 30, "the slot to wait for the transaction")
    transaction(opened)


def transaction(connection: Connection) -> str:
    ((number,),) = connection.execute("SELECT pg_current_xact_id()::xid::text").fetchall()
    return str(number)


def test_fewer_messages_read_back_mean_more_repeats_and_they_are_told_beforehand(published: Outbox) -> None:
    plan = published.recover(recall=5)
    assert plan.rows == 25
    assert 15 <= plan.repeats <= 25
    assert values(published) == numbers(*range(30), *range(15))


def test_rows_from_before_the_slot_are_not_the_recoverys(database: Database, way: str) -> None:
    outbox = Outbox(database, way)
    outbox.init()
    lose(outbox)
    database.execute("DELETE FROM walrelay.slots")
    outbox.write("before")
    outbox.init()
    outbox.write(1)
    lose(outbox)
    assert outbox.recover().rows == 1
    assert values(outbox) == numbers(1)


def test_of_a_slot_that_somebody_else_made_it_is_not_known_since_when_it_was_there(
    database: Database, way: str
) -> None:
    outbox = Outbox(database, way)
    outbox.init()
    outbox.write("streamed, and not yet published")
    database.execute("DELETE FROM walrelay.slots")
    outbox.init()
    lose(outbox)
    with pytest.raises(Fatal, match="nothing says how far"):
        outbox.recover()
    assert outbox.recover(everything=True).rows == 1


def test_what_was_written_on_another_system_is_not_believed_after_a_dump_was_restored(published: Outbox) -> None:
    published.database.execute("UPDATE walrelay.slots SET system_identifier = '7', created_xmin = 4000000000")
    with pytest.raises(Fatal, match="nothing says how far"):
        published.recover(recall=0)
    published.broker.break_after(12, Killed)
    with pytest.raises(Killed):
        published.recover(everything=True, recall=0)
    published.database.execute("UPDATE walrelay.slots SET system_identifier = '7', created_xmin = 4000000000")
    assert published.recover(recall=0).rows == 30


def test_an_own_position_says_what_was_published(outbox: Outbox) -> None:
    outbox.write(*range(20))
    position = position_now(outbox.database)
    lose(outbox)
    outbox.write(*range(20, 30))
    plan = outbox.recover(kept(position))
    assert f"position {position.lsn} in the test's file" in plan.published[0]
    assert values(outbox) == numbers(*range(20, 30))


def test_a_transaction_that_was_open_at_the_position_is_published_with_its_subtransactions(outbox: Outbox) -> None:
    with outbox.database.connect(autocommit=False) as writer:
        outbox.write(1, connection=writer)
        with writer.transaction():  # a savepoint
            outbox.write(2, connection=writer)
        outbox.write(3)
        position = position_now(outbox.database)
        lose(outbox)
        with writer.transaction():
            outbox.write(4, connection=writer)
    outbox.recover(kept(position))
    assert {b"1", b"2", b"4"} <= values(outbox).keys()


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"system": System("7", 1)}, "of another system"),
        ({"timeline": 9}, "not in the history"),
        ({"lsn": LSN.parse("FFFFFF/0")}, "ahead of this server"),
        ({"xmin": 0}, "does not say which transactions"),
    ],
    ids=["system", "timeline", "ahead", "no-xmin"],
)
def test_a_position_that_says_nothing_about_this_server_is_not_believed(
    outbox: Outbox, wrong: dict[str, Any], why: str
) -> None:
    outbox.write(1)
    position = position_now(outbox.database)
    if "timeline" in wrong:
        wrong = {"system": position.system._replace(**wrong)}
    lose(outbox)
    plan = outbox.recover(kept(position._replace(**wrong)))
    assert any(why in told for told in plan.published)
    assert values(outbox) == numbers(1)


def test_where_nothing_says_how_far_the_relay_got_the_operator_must(published: Outbox) -> None:
    published.database.execute("DELETE FROM walrelay.slots")
    published.database.execute("UPDATE outbox SET created_at = created_at - interval '1 day' WHERE payload::int < 20")
    with pytest.raises(Fatal, match="nothing says how far") as caught:
        published.recover()
    assert "--since" in caught.value.hint
    ((yesterday,),) = published.database.execute("SELECT (now() - interval '1 hour')::text")
    assert recovery.plan_recovery(published.wiring, recovery.RecoveryRequest(everything=True, recall=0)).rows == 30
    with pytest.raises(Fatal, match="timestamp"):
        published.recover(since="the other day")
    plan = published.recover(since=yesterday, recall=0)
    assert plan.rows == 10
    assert values(published) == numbers(*range(30))


def test_a_recovery_killed_in_the_middle_goes_on_with_what_it_had_set_out_to_do(
    published: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("walrelay.table.rows.BATCH_ROWS", 4)
    position = position_now(published.database)
    published.write(*range(30, 60))
    for _ in range(3):
        published.broker.break_after(9, Killed)
        with pytest.raises(Killed):
            published.recover(kept(position), recall=3)
        with pytest.raises(Fatal, match="did not finish"):
            published.init()
    plan = published.recover(recall=0)
    assert "by the interrupted recovery" in plan.published[0]
    delivered = values(published)
    assert delivered.keys() == numbers(*range(20), *range(30, 60)).keys()  # 20 to 29 are before the position
    assert delivered.total() - len(delivered) <= 3 * 4


def test_a_plan_changes_nothing(published: Outbox) -> None:
    before = published.database.execute("SELECT to_jsonb(s) FROM walrelay.slots s")
    recovery.plan_recovery(published.wiring, recovery.RecoveryRequest())
    assert published.database.execute("SELECT to_jsonb(s) FROM walrelay.slots s") == before
    assert published.settings.source.slot not in published.database.server.slots()


def test_a_slot_that_can_be_read_is_replaced_only_when_that_is_said(outbox: Outbox) -> None:
    outbox.write(1)
    with pytest.raises(Fatal, match="can be read"):
        outbox.recover()
    with outbox.relay() as relay:
        relay.streams()
        with pytest.raises(Fatal, match="in use"):
            outbox.recover(replace=True)
        outbox.messages(relay)
    outbox.write(2)
    outbox.recover(replace=True)
    assert values(outbox) == numbers(1, 2)


def test_numbers_without_a_row_are_reported(database: Database, way: str) -> None:
    database.execute("CREATE TABLE t (id bigserial, aggregate_id int, payload text)")
    outbox = Outbox(database, way, **small())
    outbox.init()
    database.execute("INSERT INTO t (aggregate_id, payload) SELECT 1, n FROM generate_series(1, 20) n")
    with outbox.relay() as relay:
        outbox.messages(relay)
    lose(outbox)
    database.execute("INSERT INTO t (aggregate_id, payload) SELECT 1, n FROM generate_series(21, 50) n")
    nothing = recovery.plan_recovery(outbox.wiring, recovery.RecoveryRequest())
    assert nothing.removed.sure
    database.execute("DELETE FROM t WHERE id < 25 OR id = 30 OR id BETWEEN 40 AND 42")
    plan = outbox.recover()
    assert (plan.removed.rows, plan.removed.sure) == (8, False)
    assert "21-24, 30, 40-42" in plan.removed.lines[0]
    assert values(outbox) == numbers(*range(1, 21), *range(25, 30), *range(31, 40), *range(43, 51))


def test_it_is_said_that_nothing_can_be_said_where_ids_are_no_numbers(published: Outbox) -> None:
    whole = recovery.plan_recovery(published.wiring, recovery.RecoveryRequest())
    assert "the oldest row left" in whole.removed.lines[0]
    published.database.execute("DELETE FROM outbox WHERE payload::int < 25")
    plan = recovery.plan_recovery(published.wiring, recovery.RecoveryRequest())
    assert (plan.removed.rows, plan.removed.sure) == (0, False)
    assert plan.removed.lines[0].endswith(" Compare with the topics: walrelay audit")
    published.database.execute("DELETE FROM outbox")
    (line,) = recovery.plan_recovery(published.wiring, recovery.RecoveryRequest()).removed.lines
    assert "; the table is empty, so nothing shows whether all were published" in line


@pytest.fixture
def lost(own_server: PostgresServer, own_outbox: Outbox) -> Iterator[Outbox]:
    """Rows 0 to 9 are published, 10 to 19 not, and the server has removed WAL that the slot needed."""
    own_outbox.write(*range(10))
    with own_outbox.relay() as relay:
        own_outbox.messages(relay)
        relay.confirms(own_outbox.end_of_wal())
    own_outbox.write(*range(10, 20))
    own_server.configure(max_slot_wal_keep_size="16MB", max_wal_size="32MB")
    for _ in range(4):
        own_server.execute("SELECT pg_logical_emit_message(false, 'filler', 'x'), pg_switch_wal()")
    own_server.execute("CHECKPOINT")
    yield own_outbox
    own_server.configure(max_slot_wal_keep_size=None, max_wal_size=None)


@pytest.mark.parametrize("own_outbox", ["text"], indirect=True)
def test_an_invalidated_slot_itself_says_what_was_published(lost: Outbox, way: str) -> None:
    assert lost.slot("wal_status") == "lost"
    plan = lost.recover(recall=0)
    assert "the lost slot's position" in plan.published[0]
    assert values(lost) >= numbers(*range(20))
    assert plan.rows <= 20


def test_rows_come_by_the_times_of_their_commits_where_the_server_keeps_them(
    own_server: PostgresServer, way: str
) -> None:
    own_server.configure(restart=True, track_commit_timestamp=True)
    database = own_server.create_database()
    try:
        outbox = Outbox(database, way)
        outbox.init()
        with connect.ordinary(database.dsn) as early:
            early.autocommit = False
            outbox.write("early", connection=early)
            outbox.write("late")
            early.commit()
        lose(outbox)
        outbox.recover()
        assert [message.value for message in outbox.broker.durable] == [b'"late"', b'"early"']
        ((committed,),) = database.execute(
            "SELECT (extract(epoch FROM pg_xact_commit_timestamp(xmin)) * 1000)::int8 FROM outbox"
            " WHERE payload = '\"early\"'"
        )
        assert abs(outbox.broker.durable[1].timestamp_ms - committed) <= 1
    finally:
        own_server.configure(restart=True, track_commit_timestamp=None)
        database.drop()


@pytest.mark.parametrize("keep", ["table", "file"])
def test_a_recovery_of_a_restored_dump_ends_in_a_relay_that_runs(
    database: Database, way: str, tmp_path: Path, keep: str
) -> None:
    """The rows of walrelay's tables, and the file, say what they said on the other system."""
    outbox = Outbox(database, way, position={"keep": keep, "path": str(tmp_path / "position")})
    outbox.init()
    outbox.write(*range(5))
    with outbox.relay() as relay:
        outbox.messages(relay)
    lose(outbox)
    here = System("7301", 1)
    database.execute("UPDATE walrelay.slots SET system_identifier = %s", [here.identifier])
    database.execute("UPDATE walrelay.positions SET system_identifier = %s", [here.identifier])
    if keep == "file":
        before = RelayPosition.of_json((tmp_path / "position").read_bytes())
        (tmp_path / "position").write_bytes(before._replace(system=here).as_json())
    outbox.recover(everything=True)
    outbox.write(5)
    with outbox.relay() as relay:
        assert Counter(outbox.values(relay)) == numbers(*range(6))


def test_a_publication_that_was_away_for_a_while_is_recovered_as_the_hint_says(
    own_server: PostgresServer, way: str
) -> None:
    database = own_server.create_database()
    try:
        outbox = Outbox(database, way)
        outbox.init()
        name = str(outbox.wiring.publication)
        database.execute(f"ALTER PUBLICATION {name} RENAME TO away")
        outbox.write(1, 2)
        database.execute(f"ALTER PUBLICATION away RENAME TO {name}")
        outbox.write(3)
        assert "`walrelay recover --replace`" in outbox.failure().hint
        outbox.recover(replace=True)
        with outbox.relay() as relay:
            assert Counter(outbox.values(relay)) == numbers(1, 2, 3)
    finally:
        database.drop()
