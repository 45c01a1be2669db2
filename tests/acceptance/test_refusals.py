"""What no retry can cure stops the relay with the record's id, its position and a hint; then nothing is lost."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from confluent_kafka.admin import AclOperation, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from tests.acceptance.checking import assert_delivered
from tests.acceptance.conftest import Deploy
from tests.acceptance.deployment import Deployment, header
from tests.acceptance.relay_process import LogEvent
from tests.conftest import KafkaMaker
from tests.servers.database import Database
from tests.servers.topics import Kafka

SOON = {"topic.metadata.propagation.max.ms": 500}  # how long librdkafka waits for a topic that is not there


def text_of(size: int) -> str:
    """A JSON string of so many bytes."""
    return '"' + "x" * (size - 2) + '"'


def assert_refused(deployment: Deployment, *payloads: str, topic: str | None = None) -> LogEvent:
    """An event with the last of the payloads stops the relay, which says which one; returns what it says."""
    relay = deployment.start()
    deployment.write("1")
    deployment.catch_up()
    *_, refused = deployment.write(*payloads, topic=topic)
    end_of_refused = deployment.position()
    deployment.write("2")
    assert relay.wait(30) == 1
    (fatal,) = relay.events("fatal")
    assert f"record {refused} at " in fatal["error"]
    assert f"topic {topic or deployment.topic!r}" in fatal["error"]
    assert fatal["hint"].endswith("Then start walrelay again: nothing is lost.")
    assert deployment.slot.confirmed < end_of_refused
    return fatal


def assert_nothing_is_lost(deployment: Deployment, *other_topics: str) -> None:
    """After the operator's fix everything arrives in order, and what the relay said of positions was right."""
    (fatal,) = (event for relay in deployment.relays for event in relay.events("fatal"))
    deployment.start()
    deployment.catch_up()
    assert_delivered(deployment, topics=other_topics)
    messages = deployment.kafka.read_all(deployment.topic, *other_topics)
    named = [
        m for m in messages if f"record {header(m, 'id')} at {header(m, 'position')} was refused" in fatal["error"]
    ]
    assert named


@pytest.mark.parametrize("topic", [1], indirect=True)
def test_a_message_too_large_for_the_client_stops_the_relay(deployment: Deployment, kafka: Kafka, topic: str) -> None:
    fatal = assert_refused(deployment, text_of(1_200_000))
    assert "message.max.bytes" in fatal["hint"]
    configure(kafka, topic, {"max.message.bytes": "3000000"})
    deployment.write_settings(sink={"options": {"message.max.bytes": 2_000_000}})
    assert_nothing_is_lost(deployment)


def test_a_message_too_large_for_its_topic_stops_the_relay(deploy: Deploy, database: Database, kafka: Kafka) -> None:
    """Also when it comes in one batch with others, which the broker refuses as a whole."""
    topic = kafka.create_topic(config={"max.message.bytes": "20000"})
    deployment = deploy(database, kafka, topic)
    fatal = assert_refused(deployment, "1", "2", text_of(30_000))
    assert "max.message.bytes" in fatal["hint"]
    configure(kafka, topic, {"max.message.bytes": "40000"})
    assert_nothing_is_lost(deployment)
    kafka.delete_topics(topic)


def test_messages_that_are_too_large_only_together_are_delivered(
    deploy: Deploy, database: Database, kafka: Kafka
) -> None:
    topic = kafka.create_topic(config={"max.message.bytes": "20000"})
    deployment = deploy(database, kafka, topic)
    relay = deployment.start()
    deployment.write("1")  # whose message goes alone, as those of the first transaction do
    while not relay.events("retrying"):  # a busy machine may send a few at a time, which are small enough
        deployment.write(*[text_of(1000)] * 100)
        deployment.catch_up()
    relay.wait_for("retrying", containing="each message is sent alone")
    assert_delivered(deployment)
    kafka.delete_topics(topic)


def test_a_time_that_the_topic_does_not_take_stops_the_relay_and_is_named(
    deploy: Deploy, database: Database, kafka: Kafka
) -> None:
    """As when PostgreSQL's clock is more than an hour ahead of the broker's: Kafka 4 takes no later time by default."""
    topic = kafka.create_topic(config={"message.timestamp.before.max.ms": "1"})
    deployment = deploy(database, kafka, topic)
    (refused,) = deployment.write("1")
    relay = deployment.launch()
    assert relay.wait() == 1
    (fatal,) = relay.events("fatal")
    assert f"record {refused} at " in fatal["error"]
    assert f"{datetime.now(UTC):%Y-%m-%d}" in fatal["hint"]
    assert f"kafka-configs.sh --alter --topic {topic} --add-config message.timestamp.after.max.ms=" in fatal["hint"]
    configure(kafka, topic, {"message.timestamp.before.max.ms": "3600000"})
    assert_nothing_is_lost(deployment)
    kafka.delete_topics(topic)


def test_an_unknown_topic_stops_the_relay(deploy: Deploy, database: Database, kafka: Kafka, topic: str) -> None:
    deployment = deploy(database, kafka, topic, sink={"options": SOON})
    fatal = assert_refused(deployment, "1", topic=f"{topic}-unknown")
    assert "kafka-topics.sh --create" in fatal["hint"]
    kafka.create_topic(f"{topic}-unknown")
    assert_nothing_is_lost(deployment, f"{topic}-unknown")
    kafka.delete_topics(f"{topic}-unknown")


def test_an_unknown_topic_is_named_as_soon_as_nothing_moves_and_may_be_made_then(
    deploy: Deploy, database: Database, kafka: Kafka, topic: str
) -> None:
    """librdkafka says nothing of it for half a minute."""
    deployment = deploy(database, kafka, topic)
    relay = deployment.start()
    unknown = f"{topic}-unknown"
    deployment.write("1", topic=unknown)
    stalled = relay.wait_for("stalled")
    assert f"topic {unknown} does not exist" in stalled["why"]
    kafka.create_topic(unknown)
    deployment.catch_up()
    assert relay.events("retrying") == []
    assert_delivered(deployment, topics=[unknown])
    kafka.delete_topics(unknown)


def test_a_topic_that_walrelay_may_not_write_stops_the_relay(
    deploy: Deploy, database: Database, private_kafka: KafkaMaker
) -> None:
    broker = private_kafka(users={"relay": "secret"})
    allowed, forbidden = broker.create_topic(), broker.create_topic()
    for operation in (AclOperation.DESCRIBE, AclOperation.WRITE):
        broker.allow("relay", operation, allowed)
    options = {name: value for name, value in broker.client_settings("relay").items() if name != "bootstrap.servers"}
    deployment = deploy(database, broker, allowed, sink={"options": {**options, **SOON}})
    fatal = assert_refused(deployment, "1", topic=forbidden)
    assert "kafka-acls.sh" in fatal["hint"]
    for operation in (AclOperation.DESCRIBE, AclOperation.WRITE):
        broker.allow("relay", operation, forbidden)
    assert_nothing_is_lost(deployment, forbidden)


def configure(kafka: Kafka, topic: str, config: Mapping[str, str]) -> None:
    """What an operator does with kafka-configs.sh --alter."""
    entries = [ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in config.items()]
    admin = kafka.admin  # must live until the answer is there
    resource: Any = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    for change in admin.incremental_alter_configs([resource]).values():
        change.result(15)
