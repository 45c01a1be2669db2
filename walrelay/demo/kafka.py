"""The brokers of a demo: librdkafka's mock cluster in a process of its own, or the user's; and the demo's topic."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from walrelay.demo.backstage import Backstage
from walrelay.errors import Fatal

TOPIC = "walrelay.demo.order"  # as the settings' route.topic makes it of the aggregate type
PARTITIONS = 4  # as many as the mock cluster gives a topic

QUIET: dict[str, Any] = {"log_level": 0}  # librdkafka would write to stderr about a broker that is ended


class EmbeddedKafka:
    """Starting takes a fraction of a second, which passes while PostgreSQL starts.

    The cluster keeps the last 5 MB of each partition, in memory. It answers a fetch that found nothing only after
    the whole of fetch.wait.max.ms, even when a message comes meanwhile: so the consumer must not let it wait.
    """

    consumer_options: dict[str, Any] = {"fetch.wait.max.ms": 1, "allow.auto.create.topics": True}  # noqa: RUF012

    name = "Kafka listener of its own (librdkafka's mock cluster)"

    def __init__(self, backstage: Backstage) -> None:
        self._child = backstage.start("the Kafka listener", [sys.executable, "-m", __name__], output=True)

    def ready(self) -> str:
        """Its bootstrap servers."""
        address = self._child.output.readline().strip()
        if not address:
            raise self._child.failure("did not start")
        return address

    def topic(self, complain: Callable[[str], None]) -> AbstractContextManager[None]:
        """The cluster makes it when it is first named."""
        return nullcontext()


class OwnKafka:
    """The user's cluster."""

    consumer_options: dict[str, Any] = {}  # noqa: RUF012

    def __init__(self, bootstrap_servers: str) -> None:
        self._bootstrap_servers = bootstrap_servers
        self.name = f"your Kafka at {bootstrap_servers}"
        self._admin = AdminClient({**QUIET, "bootstrap.servers": bootstrap_servers})

    def ready(self) -> str:
        try:
            self._admin.list_topics(timeout=5)
        except KafkaException as cause:
            raise Fatal(f"no connection to Kafka at {self._bootstrap_servers}: {_text(cause)}") from cause
        return self._bootstrap_servers

    @contextmanager
    def topic(self, complain: Callable[[str], None]) -> Iterator[None]:
        """Made before and deleted after."""
        try:
            self._create()
            yield
        finally:
            self._delete(complain)

    def _create(self) -> None:
        try:
            self._admin.create_topics([NewTopic(TOPIC, PARTITIONS)], operation_timeout=10)[TOPIC].result(15)
        except KafkaException as cause:
            if _code(cause) != KafkaError.TOPIC_ALREADY_EXISTS:
                raise Fatal(
                    f"topic {TOPIC} could not be created: {_text(cause)}",
                    hint=f"Create it yourself: kafka-topics.sh --create --topic {TOPIC} --partitions {PARTITIONS} ...",
                ) from cause
        deadline = time.monotonic() + 15
        while not self._has_leaders():
            if time.monotonic() > deadline:
                raise Fatal(f"topic {TOPIC} has partitions without a leader")
            time.sleep(0.05)

    def _delete(self, complain: Callable[[str], None]) -> None:
        try:
            self._admin.delete_topics([TOPIC], operation_timeout=10)[TOPIC].result(15)
        except KafkaException as cause:
            if _code(cause) != KafkaError.UNKNOWN_TOPIC_OR_PART:
                complain(f"topic {TOPIC} could not be deleted: {_text(cause)}")

    def _has_leaders(self) -> bool:
        topic = self._admin.list_topics(TOPIC, timeout=5).topics[TOPIC]
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
