"""Kafka for a demo or a benchmark: librdkafka's mock cluster, a broker from Apache Kafka's jars, or the user's own."""

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from walrelay.errors import Fatal
from walrelay.lab.servers.backstage import LOOPBACK, Backstage, Child, free_port, waited

T = TypeVar("T")

PARTITIONS = 4  # as many as the mock cluster gives a topic

_PAUSE = 0.05  # seconds between two questions

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
        None of `others`, which somebody may make meanwhile, is left either.
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
        with explained(f"no connection to Kafka at {bootstrap_servers}"):
            self._admin = AdminClient({**QUIET, "bootstrap.servers": bootstrap_servers})

    def ready(self) -> str:
        with explained(f"no connection to Kafka at {self._bootstrap_servers}"):
            self._admin.list_topics(timeout=5)
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
        except (KafkaException, TimeoutError) as cause:
            if _code(cause) != KafkaError.TOPIC_ALREADY_EXISTS:
                raise Fatal(
                    f"topic {topic} could not be created: {_text(cause)}",
                    hint=f"Create it yourself: kafka-topics.sh --create --topic {topic} --partitions {PARTITIONS} ...",
                ) from cause
        there = partial(patiently, lambda: self._has_leaders(topic), f"topic {topic} cannot be asked for")
        if not waited(there, 15, _PAUSE):
            raise Fatal(f"topic {topic} has partitions without a leader")

    def _delete(self, topic: str, complain: Callable[[str], None]) -> None:
        try:
            self._admin.delete_topics([topic], operation_timeout=10)[topic].result(15)
        except (KafkaException, TimeoutError) as cause:
            if _code(cause) != KafkaError.UNKNOWN_TOPIC_OR_PART:
                complain(f"topic {topic} could not be deleted: {_text(cause)}")

    def _has_leaders(self, name: str) -> bool:
        topic = self._admin.list_topics(name, timeout=5).topics[name]
        return bool(topic.partitions) and all(partition.leader >= 0 for partition in topic.partitions.values())


@contextmanager
def explained(what: str) -> Iterator[None]:
    """Errors of librdkafka's inside are Fatal: `what` could not be done, and why."""
    try:
        yield
    except KafkaException as cause:
        raise Fatal(f"{what}: {_text(cause)}") from cause


def patiently(ask: Callable[[], T], what: str, patience: float = 10.0) -> T:
    """The answer to a question, asked again for `patience` seconds: brokers that made a topic a moment ago may say that
    they do not know it, or do not lead it. Fatal, saying `what`, when time is up.
    """
    deadline = time.monotonic() + patience
    while True:
        try:
            return ask()
        except KafkaException:
            if time.monotonic() > deadline:
                with explained(what):
                    raise
        time.sleep(_PAUSE)


def topic_ends(client: Consumer, topic: str, patience: float = 10.0) -> dict[int, int]:
    """By partition, the offset that the next message will have. Waits for the topic to appear."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        ask = partial(client.list_topics, topic, timeout=patience)
        found = patiently(ask, f"topic {topic} cannot be asked for", patience).topics[topic]
        if found.error is None and found.partitions:
            return {
                partition: _end(client, TopicPartition(topic, partition), patience) for partition in found.partitions
            }
        time.sleep(_PAUSE)
    raise Fatal(f"topic {topic} did not appear on the brokers")


def _end(client: Consumer, place: TopicPartition, patience: float) -> int:
    ask = partial(client.get_watermark_offsets, place, timeout=patience)
    what = f"the end of topic {place.topic} [{place.partition}] cannot be asked for"
    end: int = patiently(ask, what, patience)[1]
    return end


def _code(cause: Exception) -> int | None:
    error = cause.args[0] if cause.args else None
    return error.code() if isinstance(error, KafkaError) else None


def _text(cause: Exception) -> str:
    error = cause.args[0] if cause.args else "no answer"
    return error.str() if isinstance(error, KafkaError) else str(error)


_PATIENCE = 60.0  # seconds; a JVM on a busy machine takes some
_CLUSTER_ID = "walrelaywalrelaywalrel"  # 22 characters, as every id has

# acks=all and its defaults stay as they are; small is only what one broker of one machine needs no more of.
_SETTINGS = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{loopback}:{controller}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://{loopback}:{port},CONTROLLER://{loopback}:{controller}
advertised.listeners=PLAINTEXT://{loopback}:{port}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
log.dirs={data}
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
group.initial.rebalance.delay.ms=0
"""


def jars(home: Path) -> Path | None:
    """The directory of jars in a Kafka distribution, or in what `make servers` fetched; None if it is neither."""
    found = (home / name for name in ("libs", "lib"))
    return next((place for place in found if any(place.glob("kafka_2*.jar"))), None)


def homes(environment: Mapping[str, str]) -> Sequence[Path]:
    """Where Kafka may be on this machine, the likeliest first: $KAFKA_HOME, then what `make servers` fetched."""
    cache = Path(environment.get("XDG_CACHE_HOME") or Path(environment.get("HOME", "~")).expanduser() / ".cache")
    named = [Path(environment["KAFKA_HOME"])] if environment.get("KAFKA_HOME") else []
    fetched = sorted((cache / "walrelay").glob("kafka-*"), reverse=True)
    return [home for home in (*named, *fetched) if jars(home) is not None]


class KafkaBroker:
    """Making it begins; `ready` waits until the broker answers, some seconds later."""

    consumer_options: dict[str, Any] = {}  # noqa: RUF012

    def __init__(self, backstage: Backstage, home: Path) -> None:
        java, libraries = shutil.which("java"), jars(home)
        if libraries is None:
            raise Fatal(f"{home} holds no Kafka: there is neither libs/kafka_2*.jar nor lib/kafka_2*.jar")
        if java is None:
            raise Fatal("Kafka needs Java, and there is no java on PATH", hint="Use --bootstrap-servers instead.")
        version = next(libraries.glob("kafka_2*.jar")).stem.rpartition("-")[2]
        self.name = f"Kafka {version} of its own"
        self._backstage = backstage
        self._java: list[str | Path] = [java, "-Xmx512m", "-XX:+UseSerialGC", "-cp", f"{libraries}/*"]
        self._directory = backstage.directory("kafka")
        self._settings = self._directory / "server.properties"
        port, controller = free_port(), free_port()
        self._address = f"{LOOPBACK}:{port}"
        self._settings.write_text(
            _SETTINGS.format(loopback=LOOPBACK, port=port, controller=controller, data=self._directory / "data")
        )
        format_it: list[str | Path] = ["kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID, "-c", self._settings]
        self._formatting = self._start("Kafka's StorageTool", format_it)

    def ready(self) -> str:
        if self._formatting.wait(_PATIENCE) != 0:
            raise self._formatting.failure("failed")
        broker = self._start("Kafka", ["kafka.Kafka", self._settings])
        admin = AdminClient({**QUIET, "bootstrap.servers": self._address})
        deadline = time.monotonic() + _PATIENCE
        while broker.running:
            try:
                if admin.list_topics(timeout=0.5).brokers:
                    return self._address
            except KafkaException as error:
                if time.monotonic() > deadline:
                    raise Fatal(f"Kafka did not answer within {_PATIENCE:g} s: {error}") from error
        raise broker.failure("ended while starting")

    def topics(
        self, names: Sequence[str], complain: Callable[[str], None], others: Sequence[str] = ()
    ) -> AbstractContextManager[None]:
        return RealKafka(self._address).topics(names, complain, others)

    def _start(self, name: str, arguments: Sequence[str | Path]) -> Child:
        return self._backstage.start(name, [*self._java, *arguments], directory=self._directory)


def default_home() -> Path | None:
    """The Kafka of this machine, if it has one that can be started."""
    found = homes(os.environ)
    return found[0] if found and shutil.which("java") else None


def serve(brokers: int = 1) -> None:
    """The child: says the address on standard output and lives until it is ended."""
    client = Producer({**QUIET, "test.mock.num.brokers": brokers})
    addresses = client.list_topics(timeout=10).brokers.values()
    sys.stdout.write(",".join(f"{broker.host}:{broker.port}" for broker in addresses) + "\n")
    sys.stdout.flush()
    while True:
        time.sleep(3600)


if __name__ == "__main__":
    serve(*map(int, sys.argv[1:]))
