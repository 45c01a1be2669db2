"""Consumers of a relay that is killed: what it repeats is handled once, by id and by position."""

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, TopicPartition

from tests.acceptance.conftest import Deploy
from tests.servers.database import Database
from tests.servers.topics import QUIET, Kafka
from tests.servers.waiting import wait_until
from walrelay.inbox import Inbox, identify

EVENTS = 1500


def consumed(kafka: Kafka, topic: str) -> Iterator[Message]:
    """Everything in the topic, partition by partition as it comes, as a consumer's own messages."""
    group = f"test-{uuid.uuid4().hex[:12]}"
    consumer = Consumer(
        {**QUIET, "bootstrap.servers": kafka.bootstrap_servers, "group.id": group, "enable.partition.eof": True}
    )
    unread = set(consumer.list_topics(topic, timeout=10).topics[topic].partitions)
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in unread])
    try:
        while unread:
            for message in consumer.consume(500, timeout=10):
                if message.error() is None:
                    yield message
                else:
                    unread.discard(message.partition())
    finally:
        consumer.close()


@pytest.mark.parametrize("by_position", [False, True])
def test_what_a_killed_relay_repeats_is_handled_once(
    by_position: bool, deploy: Deploy, database: Database, kafka: Kafka, topic: str
) -> None:
    deployment = deploy(database, kafka, topic, source={"confirm_interval": 60})  # so that a kill repeats a lot
    inbox: Any = Inbox(by_position=by_position)
    database.execute("CREATE TABLE handled (id uuid)")
    database.execute(inbox.sql())
    for number in range(3):
        deployment.write_rows(EVENTS // 3)
        relay = deployment.start()
        so_far = EVENTS // 3 * (number + 1)
        wait_until(lambda: _ids(kafka, topic) >= so_far, 30, f"{so_far} events")  # noqa: B023
        relay.kill()
    messages = first_ones = 0
    with database.connect() as connection:
        for message in consumed(kafka, topic):
            messages += 1
            identity = identify(message)
            with (
                connection.transaction(),
                inbox.receive(connection, consumer="test", message_id=identity) as first,
            ):
                if first:
                    first_ones += 1
                    connection.execute("INSERT INTO handled VALUES (%s)", [identity.id])
    assert messages > EVENTS, "nothing was repeated, so nothing was shown"
    assert first_ones == EVENTS
    assert database.execute("SELECT count(*), count(DISTINCT id) FROM handled") == [(EVENTS, EVENTS)]
    rows = database.execute("SELECT (SELECT count(*) FROM inbox), (SELECT count(*) FROM inbox_marks)")
    assert rows == [(0, 3) if by_position else (EVENTS, 0)]


def _ids(kafka: Kafka, topic: str) -> int:
    return len({dict(message.headers)["id"] for message in kafka.read_all(topic)})
