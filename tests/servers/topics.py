"""A Kafka cluster at an address: topics made and read by the tests, whoever runs the broker."""

import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.servers.waiting import NotInTime, wait_until

# librdkafka would write to stderr about every connection that a stopped broker refuses.
QUIET: dict[str, Any] = {"log_level": 0, "reconnect.backoff.max.ms": 200}


class Received(NamedTuple):
    """A message as a consumer got it."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    timestamp_ms: int


class Kafka:
    """A cluster that answers at `bootstrap_servers`; the tests themselves may have a way of their own to it."""

    def __init__(self, bootstrap_servers: str, for_tests: str | None = None) -> None:
        self.bootstrap_servers = bootstrap_servers
        self._for_tests = for_tests or bootstrap_servers

    @property
    def address_for_tests(self) -> str:
        """Where the tests themselves reach it: as `bootstrap_servers`, unless they have a way of their own."""
        return self._for_tests

    @property
    def admin(self) -> AdminClient:
        """An administration client with every right."""
        return AdminClient({**QUIET, "bootstrap.servers": self._for_tests})

    def create_topic(
        self, name: str | None = None, partitions: int = 1, config: Mapping[str, str] | None = None
    ) -> str:
        """Returns the name (a fresh one without `name`) when every partition has a leader."""
        name = name or f"test-{uuid.uuid4().hex[:12]}"
        admin = self.admin
        topic = NewTopic(name, num_partitions=partitions, replication_factor=1, config=dict(config or {}))
        admin.create_topics([topic], operation_timeout=10)[name].result(15)
        wait_until(
            lambda: len(_partitions(admin, name)) == partitions, 15, f"leaders of {name}", ignoring=KafkaException
        )
        return name

    def create_spread_topic(self, *brokers: int) -> str:
        """A topic with one partition on each of these brokers, and nowhere else."""
        name, admin = f"test-{uuid.uuid4().hex[:12]}", self.admin
        topic = NewTopic(name, num_partitions=len(brokers), replica_assignment=[[broker] for broker in brokers])
        admin.create_topics([topic], operation_timeout=10)[name].result(15)
        self.wait_for_leaders(name, len(brokers))
        return name

    def wait_for_leaders(self, topic: str, count: int) -> None:
        """Returns when so many partitions of the topic have a leader."""
        admin = self.admin
        wait_until(
            lambda: len(_partitions(admin, topic)) == count, 30, f"{count} leaders of {topic}", ignoring=KafkaException
        )

    def delete_topics(self, *names: str) -> None:
        admin = self.admin  # must live until the answer is there
        for deletion in admin.delete_topics(list(names), operation_timeout=10).values() if names else ():
            deletion.result(15)

    def read_all(self, *topics: str, timeout: float = 30) -> list[Received]:
        """Every committed message in the topics, up to the end that each partition had when it was reached. For
        `timeout` seconds nothing may come: many messages take a busy machine a while.
        """
        return self._read(topics, timeout, lambda received, at_end: at_end)

    def consume(self, *topics: str, count: int, timeout: float = 30) -> list[Received]:
        """Read from the beginning until `count` committed messages came (there may be some more)."""
        return self._read(topics, timeout, lambda received, at_end: received >= count)

    def _read(self, topics: tuple[str, ...], timeout: float, enough: Callable[[int, bool], bool]) -> list[Received]:
        deadline = time.monotonic() + timeout
        received: list[Received] = []
        consumer = Consumer(
            {
                **QUIET,
                "bootstrap.servers": self._for_tests,
                "group.id": f"test-{uuid.uuid4().hex[:12]}",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 50,
            }
        )
        try:
            unread = {(topic, partition) for topic in topics for partition in _partitions(consumer, topic)}
            consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for topic, number in unread])
            while not enough(len(received), not unread):
                if time.monotonic() >= deadline:
                    raise NotInTime(f"waited {timeout:g} s for more than {len(received)} messages in {topics}")
                for message in consumer.consume(500, timeout=0.1):
                    deadline = time.monotonic() + timeout
                    error = message.error()
                    if error is None:
                        received.append(_received(message))
                    elif error.code() == KafkaError._PARTITION_EOF:
                        unread.discard((message.topic(), message.partition()))
                    else:
                        raise KafkaException(error)
        finally:
            consumer.close()
        return received


def _partitions(client: Any, topic: str) -> list[int]:
    """The partitions of the topic that have a leader."""
    metadata = client.list_topics(topic, timeout=5).topics[topic]
    if metadata.error is not None:
        raise KafkaException(metadata.error)
    return [number for number, partition in metadata.partitions.items() if partition.leader >= 0]


def _received(message: Any) -> Received:
    return Received(
        message.topic(),
        message.partition(),
        message.offset(),
        message.key(),
        message.value(),
        message.headers() or [],
        message.timestamp()[1],
    )
