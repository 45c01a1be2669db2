"""The polling worker against real PostgreSQL and Kafka: the comparison is worth what it is worth."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import psycopg
import pytest
from confluent_kafka import KafkaException, Producer

from tests.servers.database import Database
from tests.servers.topics import Kafka
from tests.servers.waiting import wait_until
from walrelay.lab.bench.child import TABLE
from walrelay.lab.bench.database import TABLES, notifying
from walrelay.lab.bench.ends import emit
from walrelay.lab.bench.polling import BATCH, Poller
from walrelay.postgres.catalog import Catalog

Connection = psycopg.Connection[tuple[Any, ...]]
Start = Callable[..., subprocess.Popen[str]]

MARKED = f"SELECT count(*) FROM {TABLE} WHERE published_at IS NOT NULL"


@pytest.fixture
def connection(database: Database) -> Iterator[Connection]:
    with database.connect() as made:
        made.execute(TABLES.encode())
        yield made


@pytest.fixture
def start(database: Database, kafka: Kafka, topic: str) -> Iterator[Start]:
    """Starts workers, which leave with the test."""
    environment = {"DATABASE_URL": database.dsn, "KAFKA_BOOTSTRAP_SERVERS": kafka.bootstrap_servers}
    with ExitStack() as stack:

        def make(*arguments: str) -> subprocess.Popen[str]:
            command = [sys.executable, "-m", "walrelay.lab.bench.polling", TABLE, topic, *arguments]
            process = stack.enter_context(subprocess.Popen(command, env={**os.environ, **environment}, text=True))
            stack.callback(process.kill)
            return process

        yield make


def poller(connection: Connection, kafka: Kafka, topic: str, **options: Any) -> Poller:
    settings = {"bootstrap.servers": kafka.bootstrap_servers, "enable.idempotence": True, "log_level": 0, **options}
    return Poller(connection, Producer(settings), TABLE, topic)


def connected(connection: Connection) -> int:
    """How many workers are."""
    named = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'walrelay bench polling'"
    return connection.execute(f"{named} AND datname = current_database()").fetchall()[0][0]  # type: ignore[no-any-return]


def write(connection: Connection, *numbers: int) -> None:
    """An event of segment 0 for each."""
    for number in numbers:
        with connection.transaction():
            emit(connection, 0, number)


def marked(connection: Connection) -> int:
    return int(connection.execute(MARKED.encode()).fetchall()[0][0])


def read_by_scans(connection: Connection) -> int:
    """Rows that sequential scans of the outbox have read."""
    if connection.info.server_version >= 150000:
        connection.execute("SELECT pg_stat_force_next_flush()")
    query = "SELECT seq_tup_read FROM pg_stat_user_tables WHERE relname = 'outbox'"
    return int(connection.execute(query.encode()).fetchall()[0][0])


def published(kafka: Kafka, topic: str) -> list[int]:
    return [json.loads(message.value or b"")["number"] for message in kafka.read_all(topic)]


@pytest.mark.parametrize("topic", [1], indirect=True)
def test_publishes_in_order_batch_by_batch_and_marks_what_is_published(
    connection: Connection, kafka: Kafka, topic: str
) -> None:
    write(connection, *range(BATCH + 5))
    worker = poller(connection, kafka, topic)
    assert [worker.poll(), marked(connection)] == [BATCH, BATCH]
    assert [worker.poll(), marked(connection)] == [5, BATCH + 5]
    assert worker.poll() == 0
    assert published(kafka, topic) == list(range(BATCH + 5))


@pytest.mark.parametrize("topic", [1], indirect=True)
def test_a_message_is_what_walrelay_makes_of_the_row(connection: Connection, kafka: Kafka, topic: str) -> None:
    write(connection, 7)
    poller(connection, kafka, topic).poll()
    ((event, payload),) = connection.execute(f"SELECT id::text, payload::text FROM {TABLE}".encode()).fetchall()
    (message,) = kafka.read_all(topic)
    assert (message.key, message.value) == (b"order-7", payload.encode())
    assert message.headers == [("id", event.encode()), ("type", b"OrderPlaced")]


def test_rows_that_the_broker_refuses_stay_and_are_published_later(
    connection: Connection, kafka: Kafka, topic: str
) -> None:
    tight = kafka.create_topic(config={"max.message.bytes": "100"})
    try:
        write(connection, 0, 1, 2)
        with pytest.raises(KafkaException):
            poller(connection, kafka, tight).poll()
        assert marked(connection) == 0
        assert poller(connection, kafka, topic).poll() == 3
        assert (marked(connection), sorted(published(kafka, topic))) == (3, [0, 1, 2])
    finally:
        kafka.delete_topics(tight)


def test_rows_stay_when_the_broker_is_away(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("walrelay.lab.bench.polling._PATIENCE", 0.5)
    write(connection, 0)
    with pytest.raises(KafkaException):
        poller(connection, Kafka("127.0.0.1:1"), "away").poll()
    assert marked(connection) == 0


def test_rows_that_another_worker_has_are_passed_over(
    connection: Connection, database: Database, kafka: Kafka, topic: str
) -> None:
    write(connection, *range(BATCH + 3))
    with database.connect() as another, another.transaction():
        another.execute(f"SELECT FROM {TABLE} ORDER BY number LIMIT {BATCH} FOR UPDATE".encode())
        assert poller(connection, kafka, topic).poll() == 3
    assert sorted(published(kafka, topic)) == [BATCH, BATCH + 1, BATCH + 2]


def test_two_workers_publish_every_row_once(connection: Connection, kafka: Kafka, topic: str, start: Start) -> None:
    workers = [start("--every", "0.01"), start("--every", "0.01")]
    wait_until(lambda: connected(connection) == 2, 30, "both workers to be there, and to heed SIGTERM")
    write(connection, *range(1000))
    wait_until(lambda: marked(connection) == 1000, 30, "all rows to be published")
    for worker in workers:
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(10) == 0
    assert sorted(published(kafka, topic)) == list(range(1000))


def test_polls_use_the_indexes_also_when_they_were_planned_for_an_empty_table(
    connection: Connection, kafka: Kafka, topic: str
) -> None:
    worker = poller(connection, kafka, topic)
    connection.execute("SET plan_cache_mode = force_generic_plan")
    for number in range(10):  # psycopg prepares the sixth
        write(connection, number)
        worker.poll()
    before = read_by_scans(connection)
    connection.execute(
        f"""
        INSERT INTO {TABLE} (aggregate_type, aggregate_id, type, published_at)
        SELECT 'order', 'old', 'OrderPlaced', now() FROM generate_series(1, 20000)
        """.encode()
    )
    write(connection, 10)
    assert worker.poll() == 1
    assert read_by_scans(connection) == before


@pytest.mark.parametrize("arguments", [["--every", "60"], ["--back-off"], ["--listen", "--every", "60"]])
def test_sigterm_ends_a_pause(arguments: list[str], connection: Connection, start: Start) -> None:
    write(connection, 0)
    worker = start(*arguments)
    wait_until(lambda: marked(connection) == 1, 30, "the first poll")
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(5) == 0


def test_a_listening_worker_wakes_up_at_each_commit(database: Database, connection: Connection, start: Start) -> None:
    start("--listen", "--every", "600")
    write(connection, 0)
    wait_until(lambda: marked(connection) == 1, 30, "the first poll")
    with Catalog(database.dsn) as catalog, notifying(catalog):
        for number in range(1, 6):
            write(connection, number)
            wait_until(lambda: marked(connection) > number, 10, "the worker to wake up")  # noqa: B023
        write(connection, *range(6, 200))  # also those that are committed while it works
        wait_until(lambda: marked(connection) == 200, 10, "the rest")
    assert connection.execute("SELECT FROM pg_trigger WHERE tgname = 'ring'").fetchall() == []
