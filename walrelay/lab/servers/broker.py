"""A real Kafka broker (KRaft) started from Apache Kafka's jars: those of a distribution, or of `make servers`."""

import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from walrelay.errors import Fatal
from walrelay.lab.servers.backstage import LOOPBACK, Backstage, Child, free_port
from walrelay.lab.servers.kafka import QUIET, RealKafka

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
