"""The ends of Kafka's topics, read back: what a consumer sees, and nothing else."""

import uuid
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from tests.conftest import KafkaMaker
from tests.servers.topics import QUIET, Kafka
from walrelay.errors import Fatal
from walrelay.publish import Found, SinkHandle
from walrelay.sinks.kafka import plugin
from walrelay.sinks.kafka.settings import KafkaSettings


def settings(kafka: Kafka, **options: Any) -> KafkaSettings:
    return KafkaSettings.model_validate({"bootstrap_servers": kafka.bootstrap_servers, "options": options})


def produce(kafka: Kafka, topic: str, *numbers: int, partition: int = 0, transactional: bool = False) -> Producer:
    options = {"transactional.id": uuid.uuid4().hex} if transactional else {}
    producer = Producer({**QUIET, "bootstrap.servers": kafka.bootstrap_servers, **options})
    if transactional:
        producer.init_transactions(10)
        producer.begin_transaction()
    for number in numbers:
        headers: dict[str, str | bytes | None] = {"id": str(number), "position": f"0/{number:X}:0"}
        producer.produce(topic, b"", partition=partition, headers=headers, timestamp=1_700_000_000_000 + number)
    producer.flush(10)
    return producer


def test_the_newest_messages_of_each_partition_are_found_with_their_positions(kafka: Kafka, topic: str) -> None:
    produce(kafka, topic, *range(10), partition=0)
    produce(kafka, topic, *range(20, 23), partition=1)
    recalled = SinkHandle("kafka", settings(kafka), plugin).newest([topic], 4)
    found = sorted((each.topic, each.id, each.position) for each in recalled.messages)
    assert found == [(topic, str(n), f"0/{n:X}:0") for n in (20, 21, 22, 6, 7, 8, 9)]
    assert recalled.complete_since_ms == 1_700_000_000_006
    assert SinkHandle("kafka", settings(kafka), plugin).newest([topic], 100).complete_since_ms == 0


def test_what_a_transaction_took_back_is_not_found(kafka: Kafka, topic: str) -> None:
    committed = produce(kafka, topic, 1, transactional=True)
    committed.commit_transaction(10)
    aborted = produce(kafka, topic, 2, transactional=True)
    aborted.abort_transaction(10)
    assert [each.id for each in SinkHandle("kafka", settings(kafka), plugin).newest([topic], 100).messages] == ["1"]


def test_messages_of_others_and_topics_that_are_not_there_are_passed_over(kafka: Kafka, topic: str) -> None:
    producer = Producer({**QUIET, "bootstrap.servers": kafka.bootstrap_servers})
    producer.produce(topic, b"not walrelay's")
    producer.flush(10)
    recalled = SinkHandle("kafka", settings(kafka), plugin).newest([topic, "no-such-topic", "not/a/topic"], 100)
    assert (recalled.messages, recalled.complete_since_ms) == ([], 0)


class BehindConsumer(Consumer):
    """Its broker's metadata are behind, for the first questions: a topic that is there is unknown to it."""

    unaware = 0

    def list_topics(self, topic: str | None = None, *args: Any, **kwargs: Any) -> Any:
        if BehindConsumer.unaware:
            BehindConsumer.unaware -= 1
            absent = f"absent-{uuid.uuid4()}"
            return SimpleNamespace(topics={topic: super().list_topics(absent, **kwargs).topics[absent]})
        return super().list_topics(topic, **kwargs)


def test_a_broker_that_does_not_know_a_topic_yet_is_asked_again(
    kafka: Kafka, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A recovery would publish everything again, and an audit say that it is missing."""
    produce(kafka, topic, 1, 2)
    monkeypatch.setattr("walrelay.sinks.kafka.consumers.Consumer", BehindConsumer)
    BehindConsumer.unaware = 3
    assert len(SinkHandle("kafka", settings(kafka), plugin).newest([topic], 9).messages) == 2
    BehindConsumer.unaware = 3
    found = [
        each.id
        for each in SinkHandle("kafka", settings(kafka), plugin).reader("a test")([topic], 0)
        if isinstance(each, Found)
    ]
    assert found == ["1", "2"]
    assert BehindConsumer.unaware == 0


def test_topics_that_may_not_be_read_are_an_error_with_a_way_on(private_kafka: KafkaMaker) -> None:
    broker = private_kafka(users={"relay": "secret"})
    topic = broker.create_topic("events")
    options = {name: value for name, value in broker.client_settings("relay").items() if name != "bootstrap.servers"}
    with pytest.raises(Fatal, match="cannot be read back") as caught:
        SinkHandle("kafka", settings(broker, **options), plugin).newest([topic], 100)
    assert "--recall 0" in caught.value.hint
