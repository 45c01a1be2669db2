"""From a polling worker to walrelay and back, as docs/guides/cut-over.md has it: nothing lost, nothing twice."""

import re
import shlex
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

import pytest
from confluent_kafka import Producer

from tests.acceptance.deployment import Deployment
from tests.acceptance.writing import Writers
from tests.servers.topics import QUIET
from tests.servers.waiting import wait_until

_, _, THERE, BACK = (Path(__file__).parents[2] / "docs/guides/cut-over.md").read_text().split("\n## ")
"""The page's sections; what is to be typed is in backquotes."""


def typed(section: str, *begin: str) -> list[str]:
    """What the section has in backquotes and begins so."""
    return [text for text in re.findall(r"`([^`]+)`", section) if text.startswith(begin)]


CUT_OVER = tuple(shlex.split(typed(THERE, "walrelay init")[0])[1:])
UNPUBLISHED = CUT_OVER[-1]

_BATCH = """
    SELECT id::text, aggregate_id, payload::text FROM outbox WHERE published = false
    ORDER BY created_at LIMIT 50 FOR UPDATE SKIP LOCKED
"""


@contextmanager
def worker(deployment: Deployment) -> Iterator[None]:
    """Polls the outbox, publishes in batches and marks the rows, as workers do; ends between two batches."""
    stop, failures = Event(), list[Exception]()

    def batch() -> None:
        with deployment.database.connect(autocommit=False) as connection:
            rows = connection.execute(_BATCH).fetchall()
            for id_, key, payload in rows:
                producer.produce(deployment.topic, payload.encode(), key, headers={"id": id_})
            assert producer.flush(10) == 0
            ids = [id_ for id_, _, _ in rows]
            connection.execute("UPDATE outbox SET published = true WHERE id = ANY (%s::uuid[])", [ids])

    def work() -> None:
        try:
            while not stop.wait(0.01):
                batch()
        except Exception as error:
            failures.append(error)

    producer = Producer({**QUIET, "bootstrap.servers": deployment.kafka.bootstrap_servers, "linger.ms": 0})
    thread = Thread(target=work, name="worker", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(30)
    assert failures == []


@pytest.fixture
def table(deployment: Deployment) -> Deployment:
    """A table as a team has it that polls, and nothing else of the deployment."""
    deployment.command("drop", "--yes")
    deployment.database.execute("ALTER TABLE outbox ADD published boolean NOT NULL DEFAULT false")
    return deployment


def unmarked(deployment: Deployment) -> int:
    ((count,),) = deployment.database.execute("SELECT count(*) FROM outbox WHERE published = false")
    return int(count)


def back(deployment: Deployment) -> None:
    """The way back of the page."""
    lock, position, confirmed, mark = typed(BACK, "BEGIN", "SELECT", "UPDATE")
    with deployment.database.connect(autocommit=True) as session:
        session.execute(lock.encode())
        ((end,),) = session.execute(position.encode()).fetchall()
        confirmed = confirmed.replace("THAT LSN", end).replace("'walrelay'", f"'{deployment.slot_name}'")
        wait_until(lambda: session.execute(confirmed.encode()).fetchall() == [(True,)], 30, "all to be confirmed")
        deployment.relays[-1].stop()
        session.execute(mark.encode())


def test_cut_over_and_back_under_load_lose_nothing_and_repeat_nothing(table: Deployment) -> None:
    with Writers(table.database, seed=14, pause=0.01) as writers:
        with worker(table):
            writers.wait_for_more(100)
        writers.wait_for_more(30)
        table.command(*CUT_OVER)
        table.start()
        writers.wait_for_more(100)
        by_walrelay = unmarked(table)
        back(table)
        with worker(table):
            (drop,) = typed(BACK, "walrelay drop")
            table.command(*drop.split()[1:])
            writers.wait_for_more(100)
            writers.stop()
            wait_until(lambda: not unmarked(table), 30, "the worker to be done")
    delivered = Counter(table.delivered_ids())
    committed = Counter(str(row) for (row,) in table.database.execute("SELECT id FROM outbox"))
    assert writers.acknowledged <= committed.keys()
    assert delivered == committed
    assert by_walrelay > 100


def test_an_interrupted_cut_over_goes_on_with_its_condition_and_refuses_another(table: Deployment) -> None:
    first, second = table.write("1")[0], table.write("2")[0]
    table.database.execute("UPDATE outbox SET published = true WHERE id = %s", [first])
    refused = table.said(*CUT_OVER[:-1], "publishd = false", exit_code=1)
    assert "--where 'publishd = false' cannot be used" in refused
    assert "an SQL condition over the columns" in refused
    topic, nowhere = table.topic, "no.such.topic"
    impatient = {"options": {"topic.metadata.propagation.max.ms": 500}}
    table.write_settings(route={"topic": nowhere}, sink=impatient)
    assert nowhere in table.said(*CUT_OVER, exit_code=1)
    table.write_settings(route={"topic": topic})
    other = table.said(*CUT_OVER[:-1], "true", exit_code=1)
    assert f"an unfinished backfill publishes the rows where {UNPUBLISHED}" in other
    table.command("init", "--backfill")
    assert table.delivered_ids() == [second]


def test_rows_that_the_worker_published_are_not_known_to_be_published(table: Deployment) -> None:
    """The clean-up leaves them alone, until the operator says that they were."""
    (old,) = table.write("1")
    table.database.execute("UPDATE outbox SET published = true, created_at = now() - interval '1 day'")
    (new,) = table.write("2")
    table.command(*CUT_OVER)
    table.start()
    table.catch_up()
    assert table.delivered_ids() == [new]
    assert "1 row is from before the slot" in table.said("cleanup", "--older-than", "1h")
    assert old in {str(row) for (row,) in table.database.execute("SELECT id FROM outbox")}


def test_a_condition_without_a_backfill_is_refused(table: Deployment) -> None:
    assert "--where has no effect without --backfill" in table.said("init", "--where", UNPUBLISHED, exit_code=2)
