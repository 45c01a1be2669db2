"""Commands that exclude no other: each is held in the middle of its work, does not hold up the others, and gets to its
end as if it were alone.
"""

import os
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import LiteralString

import psycopg
import pytest

from tests.acceptance.backfill_process import BackfillProcess
from tests.acceptance.conftest import Deploy
from tests.acceptance.deployment import Deployment, event_id
from tests.acceptance.replaying import replayed, replays
from tests.acceptance.test_locks import refused
from tests.acceptance.test_refusals import configure, text_of
from tests.servers.database import Database
from tests.servers.topics import Kafka
from tests.servers.waiting import wait_until

ROWS = 300


def publish(deployment: Deployment) -> None:
    """All rows, by a relay that runs on."""
    deployment.start()
    deployment.write_rows(ROWS)
    deployment.catch_up()


@pytest.fixture
def published(deployment: Deployment) -> Deployment:
    publish(deployment)
    return deployment


@contextmanager
def frozen(process: BackfillProcess) -> Iterator[None]:
    """It has its connections, its snapshots and its locks, and does nothing."""
    os.kill(process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process.pid, signal.SIGCONT)


WAITING: LiteralString = "SELECT pid FROM pg_stat_activity WHERE %s = ANY (pg_blocking_pids(pid))"


def freeze_behind(connection: psycopg.Connection, process: BackfillProcess) -> int:
    """The PID of its session, once it waits for a lock of this connection's; its statement goes on without it."""
    me = connection.info.backend_pid
    with psycopg.connect(connection.info.dsn, autocommit=True) as beside:
        found = wait_until(lambda: beside.execute(WAITING, [me]).fetchone(), 30, "someone to wait")
    assert found is not None
    os.kill(process.pid, signal.SIGSTOP)
    return int(found[0])


def stop_relays(deployment: Deployment) -> None:
    for relay in deployment.relays:
        relay.stop()


def test_beside_a_replay_everything_works_but_the_same_replay(published: Deployment) -> None:
    replay = BackfillProcess(published, "replay", "--all", "--rate", "100")
    wait_until(lambda: replays(published) >= 100, 30, "rows to be published again")
    with frozen(replay):
        assert "PID" in refused(published, "replay --all --rate 100")
        published.command("init")
        assert "from a replay or a backfill" in published.command("audit", "--from", "1h")
        assert "published 6 rows again" in published.command("replay", "--aggregate", "thing:1")
        assert "0 replayed" in published.command("dlq", "replay")
        stop_relays(published)
        published.command("drop", "--yes")
    assert replay.wait() == 0, replay.output()
    assert f"published {ROWS} rows again" in replay.output()
    again = Counter(event_id(message) for message in replayed(published))
    assert (len(again), again.total()) == (ROWS, ROWS + 6)


def test_beside_an_audit_everything_works(deployment: Deployment) -> None:
    """It is held when it has read the topics, and looks whether the row that is not there is a dead letter."""
    deployment.command("drop", "--yes")
    deployment.write("0")  # from before the slot
    deployment.command("init")
    publish(deployment)
    with deployment.database.connect(autocommit=False) as connection:
        connection.execute("LOCK TABLE walrelay.dead_letters")
        audit = BackfillProcess(deployment, "audit", "--from", "1h")
        freeze_behind(connection, audit)
    with frozen(audit):
        deployment.command("audit", "--from", "1h", exit_code=1)
        deployment.command("init")
        deployment.command("replay", "--aggregate", "thing:1")
        deployment.command("dlq", "replay")
        assert f"{ROWS} rows deleted" in deployment.command("cleanup", "--older-than", "0.01s", "--pace", "1")
        stop_relays(deployment)
        deployment.command("drop", "--yes")
        assert "does not exist" in refused(deployment, "audit --from 1h")
    assert audit.wait() == 1
    assert "verdict       1 missing" in audit.output()


LETTER_IS_CLOSED: LiteralString = """
    CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS
        $$BEGIN PERFORM pg_advisory_xact_lock(4711); RETURN new; END$$;
    CREATE TRIGGER wait BEFORE UPDATE ON walrelay.dead_letters FOR EACH ROW EXECUTE FUNCTION wait()
"""


def test_beside_a_replay_of_dead_letters_everything_works_and_each_letter_goes_once(
    deploy: Deploy, database: Database, kafka: Kafka, topic: str
) -> None:
    """It is held when its letter is published, and not yet closed."""
    deployment = deploy(database, kafka, topic, refusals={"policy": "dead_letter"})
    deployment.start()
    deployment.write("1", text_of(1_200_000), "2")
    deployment.catch_up()
    deployment.write_settings(sink={"options": {"message.max.bytes": 2_000_000}})
    configure(kafka, topic, {"max.message.bytes": "3000000"})
    database.execute(LETTER_IS_CLOSED)
    with database.connect(autocommit=True) as connection:
        connection.execute("SELECT pg_advisory_lock(4711)")
        first = BackfillProcess(deployment, "dlq", "replay")
        holds = freeze_behind(connection, first)
    with frozen(first):
        deployment.command("init")
        deployment.command("replay", "--type", "Happened", "--rate", "100")
        deployment.command("audit", "--from", "1h")
        assert "3 rows deleted" in deployment.command("cleanup", "--older-than", "0.01s", "--pace", "1")
        stop_relays(deployment)
        deployment.command("drop", "--yes")
        second = BackfillProcess(deployment, "dlq", "replay")
        wait_until(lambda: database.execute(WAITING, [holds]), 30, "the second to wait for the first")
    assert (first.wait(), second.wait()) == (0, 0), first.output() + second.output()
    assert "1 replayed" in first.output()
    assert "0 replayed" in second.output()


def waiting_cleanup(deployment: Deployment) -> BackfillProcess:
    """A clean-up that waits for the slot: no relay reads it."""
    stop_relays(deployment)
    deployment.write_rows(10)
    cleanup = BackfillProcess(deployment, "cleanup", "--older-than", "0.01s", "--pace", "1")
    cleanup.waits_for("to confirm")
    return cleanup


def test_a_clean_up_that_waits_for_slots_goes_on_after_an_init_that_changes_nothing(published: Deployment) -> None:
    cleanup = waiting_cleanup(published)
    published.command("init")
    published.command("dlq", "replay")
    published.command("audit", "--from", "1h")
    published.start()
    assert cleanup.wait() == 0, cleanup.output()
    assert f"{ROWS + 10} rows deleted" in cleanup.output()


@pytest.mark.parametrize("command", ["drop --yes", "init"])
def test_a_clean_up_that_waits_for_slots_is_ended_by_what_makes_them_say_less(
    published: Deployment, command: str
) -> None:
    cleanup = waiting_cleanup(published)
    if command == "init":  # takes note of what was not published meanwhile
        published.database.execute("ALTER PUBLICATION walrelay SET (publish = 'update')")
    published.command(*command.split())
    if command == "init":
        published.start()
    assert cleanup.wait() == 1, cleanup.output()
    assert "is gone" in cleanup.output() or "walrelay.slots changed while the clean-up" in cleanup.output()
    assert published.database.execute("SELECT count(*) FROM outbox") == [(ROWS + 10,)]
