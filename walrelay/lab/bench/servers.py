"""The PostgreSQL and the Kafka of a benchmark: of its own, or the user's."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from walrelay.lab.servers.backstage import Backstage
from walrelay.lab.servers.broker import KafkaBroker, default_home
from walrelay.lab.servers.kafka import Kafka, MockKafka, RealKafka
from walrelay.lab.servers.postgres import EmbeddedPostgres, OwnPostgres, Programs, newest_programs, programs_at


class Servers(NamedTuple):
    """What was asked for; nothing was: servers of the benchmark's own."""

    dsn: str | None = None
    postgres_bin: Path | None = None  # a directory with initdb and postgres
    bootstrap_servers: str | None = None
    kafka_home: Path | None = None  # with Apache Kafka's jars

    def postgres(
        self, backstage: Backstage, settings: Mapping[str, str | int], *, tcp: bool = False
    ) -> EmbeddedPostgres | OwnPostgres:
        """Begins to start it. `settings` and `tcp` are for a server of our own; the user's is left as it is."""
        if self.dsn:
            return OwnPostgres(self.dsn)
        lines = "".join(f"{name} = '{value}'\n" for name, value in settings.items())
        return EmbeddedPostgres(backstage, self.programs(), lines, tcp=tcp)

    def programs(self) -> Programs:
        """Of the server of our own."""
        return programs_at(self.postgres_bin) if self.postgres_bin else newest_programs()

    def kafka(self, backstage: Backstage) -> Kafka:
        """A real one where the machine has one; begins to start it."""
        if self.bootstrap_servers:
            return RealKafka(self.bootstrap_servers)
        home = self.kafka_home or default_home()
        return KafkaBroker(backstage, home) if home else MockKafka(backstage)


def kafka_version(kafka: Kafka) -> str:
    """Brokers do not tell theirs; of our own it is known from the jars."""
    if isinstance(kafka, KafkaBroker):
        return kafka.name.removeprefix("Kafka ").removesuffix(" of its own")
    return "librdkafka's mock cluster" if isinstance(kafka, MockKafka) else "of unknown version"
