"""`outbox.mark_published`: the leading relay marks what it has published, and nothing about it harms the relay."""

import psycopg
import pytest

from tests.acceptance.conftest import Deploy
from tests.acceptance.deployment import Deployment
from tests.acceptance.writing import Writers
from tests.servers.database import Database
from tests.servers.topics import Kafka
from tests.servers.waiting import wait_until

MARKS = {"where": "published_at IS NULL AND 7 % 2 = 1", "set": "published_at = now()"}

_WAITS_FOR_THE_TABLE = "SELECT 1 FROM pg_locks WHERE relation = 'outbox'::regclass AND NOT granted"


@pytest.fixture
def marking(deploy: Deploy, database: Database, kafka: Kafka, topic: str) -> Deployment:
    deployment = deploy(
        database,
        kafka,
        topic,
        outbox={"mark_published": MARKS},
        refusals={"policy": "dead_letter"},
        sink={"options": {"message.max.bytes": 100_000}},
    )
    database.execute("ALTER TABLE outbox ADD published_at timestamptz")
    return deployment


def unmarked(deployment: Deployment) -> set[str]:
    return {str(row) for (row,) in deployment.database.execute("SELECT id FROM outbox WHERE published_at IS NULL")}


def test_rows_are_marked_once_they_are_published_while_writers_write(marking: Deployment) -> None:
    relay = marking.start()
    with Writers(marking.database, seed=41) as writers:
        writers.wait_for_more(500)
        wait_until(lambda: len(unmarked(marking)) < len(writers.acknowledged), 30, "the first marks")
    wait_until(lambda: not unmarked(marking), 30, "all rows to be marked")
    delivered = marking.delivered_ids()
    assert writers.acknowledged <= set(delivered)
    assert len(delivered) == len(set(delivered)), "a mark is no event"
    assert relay.events("not marked") == []


def test_what_is_not_published_is_not_marked(marking: Deployment) -> None:
    """A row before the slot, one that became a dead letter, and one that no relay has read."""
    marking.command("drop", "--yes")
    (before,) = marking.write("0")
    marking.command("init")
    relay = marking.start()
    (refused,) = marking.write(f'"{"x" * 200_000}"')
    (published,) = marking.write("1")
    wait_until(lambda: published not in unmarked(marking), 30, "the mark")
    assert unmarked(marking) == {before, refused}
    relay.stop()
    (later,) = marking.write("2")
    assert unmarked(marking) == {before, refused, later}


def test_a_locked_row_is_marked_later_and_keeps_nothing_waiting(marking: Deployment) -> None:
    (locked,), (free,) = marking.write("1"), marking.write("2")
    with marking.database.connect(autocommit=False) as session:
        session.execute("SELECT FROM outbox WHERE id = %s FOR UPDATE", [locked])
        relay = marking.start()
        marking.catch_up()
        wait_until(lambda: unmarked(marking) == {locked}, 30, f"the mark of {free}")
        (later,) = marking.write("3")
        marking.catch_up()
        assert unmarked(marking) == {locked, later}, "an open transaction that wrote holds back the marks of later rows"
    wait_until(lambda: not unmarked(marking), 30, "the other marks")
    assert relay.events("not marked") == []


def test_a_locked_table_keeps_only_the_mark_waiting(marking: Deployment) -> None:
    relay, ids = marking.start(), list[str]()
    with marking.database.connect(autocommit=False) as session:
        for _ in range(20):  # a mark may come before the lock
            ids += marking.write("1")
            session.execute("LOCK TABLE outbox")
            if session.execute("SELECT id FROM outbox WHERE published_at IS NULL").fetchall():
                break
            session.rollback()
        wait_until(lambda: marking.database.execute(_WAITS_FOR_THE_TABLE), 30, "a look at the table")
        wait_until(lambda: not marking.database.execute(_WAITS_FOR_THE_TABLE), 30, "the end of that look")
        wait_until(lambda: marking.delivered_ids() == ids, 30, "the messages")
    wait_until(lambda: not unmarked(marking), 30, "the mark")
    assert relay.events("not marked") == []


def test_rows_of_a_partitioned_outbox_are_marked_in_all_partitions(marking: Deployment) -> None:
    marking.command("drop", "--yes")
    marking.database.execute("DROP TABLE outbox")
    marking.command("init", "--partitioned")
    marking.database.execute("ALTER TABLE outbox ADD published_at timestamptz")
    marking.start()
    (today,) = marking.write("1")
    marking.database.execute(
        "INSERT INTO outbox (aggregate_type, aggregate_id, type, payload, created_at)"
        " VALUES ('thing', 'a', 'Happened', '2', now() - interval '400 days')"
    )
    assert marking.database.execute("SELECT count(DISTINCT tableoid) FROM outbox") == [(2,)]
    wait_until(lambda: not unmarked(marking), 30, "the marks")
    marking.catch_up()
    assert [each.value for each in marking.delivered()] == [b"1", b"2"]
    assert marking.delivered_ids()[0] == today


def test_marks_that_cannot_be_set_are_told_once_and_the_relay_goes_on(marking: Deployment) -> None:
    marking.database.execute("ALTER TABLE outbox DROP published_at")
    relay = marking.start()
    marking.write("1")
    told = relay.wait_for("not marked")
    assert 'column "published_at" does not exist' in told["why"]
    marking.write("2")
    marking.catch_up()
    assert len(marking.delivered()) == 2
    assert relay.running


def test_a_missing_right_is_told_with_the_grant_and_the_relay_goes_on(marking: Deployment) -> None:
    database, role = marking.database, f"r_{marking.database.name}"
    database.execute(
        f"CREATE ROLE {role} LOGIN REPLICATION; GRANT USAGE ON SCHEMA walrelay TO {role};"
        f" GRANT SELECT ON walrelay.slots, outbox TO {role};"
        f" GRANT SELECT, INSERT, UPDATE ON walrelay.dead_letters TO {role}"
    )
    try:
        marking.write_settings(source={"dsn": psycopg.conninfo.make_conninfo(database.dsn, user=role)})
        relay = marking.start()
        marking.write("1")
        grant = relay.wait_for("not marked")["why"].partition("(hint: ")[2].removesuffix(")")
        assert grant.startswith("GRANT UPDATE ON ")
        marking.catch_up()
        relay.stop()
        database.execute(grant)
        relay = marking.start()
        wait_until(lambda: not unmarked(marking), 30, "the mark")
        relay.stop()
    finally:
        database.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")
