"""Kafka for a demo or a benchmark: librdkafka's mock cluster, a broker from Apache Kafka's jars, or the user's own."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Protocol

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from walrelay.embedded.backstage import Backstage
from walrelay.errors import Fatal

PARTITIONS = 4  # as many as the mock cluster gives a topic

QUIET: dict[str, Any] = {"log_level": 0}  # librdkafka would write to stderr about a broker that is ended


class Kafka(Protocol):
    """Brokers to publish to. `consumer_options` are librdkafka's, for whoever reads from them."""

    name: str
    consumer_options: dict[str, Any]

    def ready(self) -> str:
        """Their bootstrap servers, once they answer."""
        ...

    def topics(
        self, names: Sequence[str], complain: Callable[[str], None], others: Sequence[str] = ()
    ) -> AbstractContextManager[None]:
        """Topics of PARTITIONS partitions that are there while this is entered; `complain` hears what could not go.
        Of `others`, which somebody may make meanwhile, none is left either.
        """
        ...


class MockKafka:
    """librdkafka's mock cluster in a process of its own. Starting takes a fraction of a second.

    The cluster keeps the last 5 MB of each partition, in memory. It answers a fetch that found nothing only after
    the whole of fetch.wait.max.ms, even when a message comes meanwhile: so the consumer must not let it wait.
    """

    consumer_options: dict[str, Any] = {"fetch.wait.max.ms": 1, "allow.auto.create.topics": True}  # noqa: RUF012

    name = "Kafka listener of its own (librdkafka's mock cluster)"

    def __init__(self, backstage: Backstage) -> None:
        self._child = backstage.start("the Kafka listener", [sys.executable, "-m", __name__], output=True)

    def ready(self) -> str:
        address = self._child.output.readline().strip()
        if not address:
            raise self._child.failure("did not start")
        return address

    def topics(
        self, names: Sequence[str], complain: Callable[[str], None], others: Sequence[str] = ()
    ) -> AbstractContextManager[None]:
        """The cluster makes one when it is first named."""
        return nullcontext()


class RealKafka:
    """Brokers that somebody else runs, or that were started beside us."""

    consumer_options: dict[str, Any] = {}  # noqa: RUF012

    def __init__(self, bootstrap_servers: str, name: str = "") -> None:
        self._bootstrap_servers = bootstrap_servers
        self.name = name or f"your Kafka at {bootstrap_servers}"
        self._admin = AdminClient({**QUIET, "bootstrap.servers": bootstrap_servers})

    def ready(self) -> str:
        try:
            self._admin.list_topics(timeout=5)
        except KafkaException as cause:
            raise Fatal(f"no connection to Kafka at {self._bootstrap_servers}: {_text(cause)}") from cause
        return self._bootstrap_servers

    @contextmanager
    def topics(
        self, names: Sequence[str], complain: Callable[[str], None], others: Sequence[str] = ()
    ) -> Iterator[None]:
        """Made before and deleted after."""
        try:
            for topic in names:
                self._create(topic)
            yield
        finally:
            for topic in (*names, *others):
                self._delete(topic, complain)

    def _create(self, topic: str) -> None:
        try:
            self._admin.create_topics([NewTopic(topic, PARTITIONS)], operation_timeout=10)[topic].result(15)
        except KafkaException as cause:
            if _code(cause) != KafkaError.TOPIC_ALREADY_EXISTS:
                raise Fatal(
                    f"topic {topic} could not be created: {_text(cause)}",
                    hint=f"Create it yourself: kafka-topics.sh --create --topic {topic} --partitions {PARTITIONS} ...",
                ) from cause
        deadline = time.monotonic() + 15
        while not self._has_leaders(topic):
            if time.monotonic() > deadline:
                raise Fatal(f"topic {topic} has partitions without a leader")
            time.sleep(0.05)

    def _delete(self, topic: str, complain: Callable[[str], None]) -> None:
        try:
            self._admin.delete_topics([topic], operation_timeout=10)[topic].result(15)
        except KafkaException as cause:
            if _code(cause) != KafkaError.UNKNOWN_TOPIC_OR_PART:
                complain(f"topic {topic} could not be deleted: {_text(cause)}")

    def _has_leaders(self, name: str) -> bool:
        topic = self._admin.list_topics(name, timeout=5).topics[name]
        return bool(topic.partitions) and all(partition.leader >= 0 for partition in topic.partitions.values())


def _code(cause: KafkaException) -> int | None:
    error = cause.args[0]
    return error.code() if isinstance(error, KafkaError) else None


def _text(cause: KafkaException) -> str:
    error = cause.args[0]
    return error.str() if isinstance(error, KafkaError) else str(error)


def serve() -> None:
    """The child: says the address on standard output and lives until it is ended."""
    client = Producer({**QUIET, "test.mock.num.brokers": 1})
    brokers = client.list_topics(timeout=10).brokers.values()
    sys.stdout.write(",".join(f"{broker.host}:{broker.port}" for broker in brokers) + "\n")
    sys.stdout.flush()
    while True:
        time.sleep(3600)


if __name__ == "__main__":
    serve()
