"""Kafka as a broker of the demo: the mock cluster, or the user's."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition

from walrelay.lab.brokers.contract import ReadMessage, messages
from walrelay.lab.servers.kafka import QUIET, Kafka, explained, topic_ends

_MOMENT = 0.05  # seconds


class LabKafka:
    version = ""

    def __init__(self, kafka: Kafka) -> None:
        self._kafka, self.name = kafka, kafka.name
        self._bootstrap_servers = ""

    @property
    def environment(self) -> Mapping[str, str]:
        return {"KAFKA_BOOTSTRAP_SERVERS": self._bootstrap_servers}

    def ready(self) -> None:
        self._bootstrap_servers = self._kafka.ready()

    def sink(self, topic: str) -> Mapping[str, Any]:
        # librdkafka's mock cluster keeps 5 MB of each partition, and every fetch searches them from the start: the
        # fewer messages they are, the sooner it answers.
        options = {"compression.type": "none"}
        return {"kind": "kafka", "bootstrap_servers": "${KAFKA_BOOTSTRAP_SERVERS}", "options": options}

    def topic(self, name: str, complain: Callable[[str], None]) -> AbstractContextManager[None]:
        return self._kafka.topics([name], complain)

    def consumer(self, topic: str) -> "PartitionsConsumer":
        return PartitionsConsumer(self._bootstrap_servers, self._kafka.consumer_options, topic)

    def held(self, topic: str) -> int:
        consumer = Consumer({**QUIET, "bootstrap.servers": self._bootstrap_servers, "group.id": "walrelay-demo"})
        try:
            return sum(topic_ends(consumer, topic).values())
        finally:
            consumer.close()


class PartitionsConsumer:
    """Reads what comes into the topic after it was made."""

    def __init__(self, bootstrap_servers: str, options: Mapping[str, Any], topic: str) -> None:
        with explained(f"the consumer cannot read from {bootstrap_servers}"):
            self._consumer = Consumer(
                {
                    **QUIET,
                    "bootstrap.servers": bootstrap_servers,
                    "group.id": "walrelay-demo",
                    "enable.auto.commit": False,
                    "auto.offset.reset": "error",  # a message that the broker dropped must not go unnoticed
                    **options,
                }
            )
            # Assigned rather than subscribed: no group has to be formed, and none is left on the user's brokers.
            ends = topic_ends(self._consumer, topic)
            self._consumer.assign([TopicPartition(topic, *place) for place in ends.items()])

    def receive(self) -> Iterable[ReadMessage]:
        message = self._consumer.poll(_MOMENT)
        if message is None:
            return []
        if message.error() is not None:
            raise KafkaException(message.error())
        headers: dict[str, Any] = {"key": message.key() or b"", **dict(message.headers() or [])}
        return messages([(headers, message.value() or b"")])

    def close(self) -> None:
        self._consumer.close()
