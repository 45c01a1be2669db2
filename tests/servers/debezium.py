"""Debezium Server 3.6 as Maven Central has it, with an outbox in PostgreSQL and a sink in Kafka."""

import os
import signal
from pathlib import Path

from psycopg.conninfo import conninfo_to_dict

from tests.bench.peers import debezium_distribution as distribution
from tests.servers.database import Database
from tests.servers.kafka_jars import cache
from tests.servers.process import ServerProcess
from tests.servers.topics import Kafka

_SERIALIZER = "org.apache.kafka.common.serialization.StringSerializer"


class DebeziumServer:
    """In a directory of its own, with config/application.properties and data/offsets.dat."""

    def __init__(self, directory: Path, database: Database, kafka: Kafka, settings: dict[str, str]) -> None:
        """`settings`: what is not as below."""
        self._jdk = distribution.find_jdk()
        directory.mkdir()
        distribution.lay_out(distribution.install(cache(os.environ)), directory)
        self.directory = directory
        self.properties = directory / "config" / "application.properties"
        self.offsets = directory / "data" / "offsets.dat"
        self._process: ServerProcess | None = None
        where = conninfo_to_dict(database.dsn)
        written = {
            "debezium.source.connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "debezium.source.plugin.name": "pgoutput",
            "debezium.source.database.hostname": where["host"],
            "debezium.source.database.port": where["port"],
            "debezium.source.database.user": where["user"],
            "debezium.source.database.password": where.get("password") or "none",
            "debezium.source.database.dbname": where["dbname"],
            "debezium.source.topic.prefix": "app",
            "debezium.source.table.include.list": "public.outbox",
            "debezium.source.publication.autocreate.mode": "filtered",
            "debezium.source.snapshot.mode": "no_data",
            "debezium.source.offset.storage.file.filename": "data/offsets.dat",
            "debezium.source.poll.interval.ms": "20",
            "debezium.transforms": "outbox",
            "debezium.transforms.outbox.type": "io.debezium.transforms.outbox.EventRouter",
            "debezium.sink.type": "kafka",
            "debezium.sink.kafka.producer.bootstrap.servers": kafka.bootstrap_servers,
            "debezium.sink.kafka.producer.key.serializer": _SERIALIZER,
            "debezium.sink.kafka.producer.value.serializer": _SERIALIZER,
            "quarkus.http.host": "127.0.0.1",
            "quarkus.http.port": "0",
            "quarkus.log.console.json.enabled": "false",
        } | settings
        self.properties.write_text("".join(f"{name}={value}\n" for name, value in written.items()))

    def start(self) -> None:
        environment = {**os.environ, "JAVA_HOME": str(self._jdk), "JAVA_OPTS": "-Xmx256m -XX:+UseSerialGC"}
        log = self.directory / "log"
        self._process = ServerProcess(
            ["./run.sh"], log=log, cwd=self.directory, last_signal=signal.SIGKILL, environment=environment
        )

    def stop(self, by: signal.Signals = signal.SIGTERM) -> None:
        """Returns when it has ended."""
        if self._process is not None:
            self._process.signal(by)
            self._process.wait(60)
            self._process = None
