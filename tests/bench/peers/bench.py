"""The servers of a run, and for each measurement a database, a topic and a directory that nothing else ever used."""

import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Producer

from tests.bench.peers.contract import Command, Outbox, Peer, Site, Variant
from tests.servers import choose
from tests.servers.database import Database
from tests.servers.kafka import KafkaServer
from tests.servers.ports import LOOPBACK, free_port
from tests.servers.postgres import PostgresServer, Setting

_PARTITIONS = 3

# Durable, as a database in production is, and without a checkpoint in the middle of a measurement.
_SETTINGS: dict[str, Setting] = {
    "fsync": True,
    "shared_buffers": "256MB",
    "max_wal_size": "16GB",
    "checkpoint_timeout": "1h",
    "max_wal_senders": 20,
    "max_replication_slots": 20,
}


@dataclass(frozen=True)
class Bench:
    """One PostgreSQL and one Kafka for the whole run; `out` keeps the logs, `cache` what peers install."""

    postgres: PostgresServer
    kafka: KafkaServer
    out: Path
    cache: Path


class Place(NamedTuple):
    """One measurement's own: the peer is configured, and not started yet."""

    site: Site
    database: Database
    outbox: Outbox
    command: Command
    arrivals: Path  # what the consumer notes
    log: Path  # what the peer writes


@contextmanager
def servers(out: Path, cache: Path) -> Iterator[Bench]:
    machine = choose.this_machine()
    with (
        PostgresServer(choose.postgres_programs(machine), _SETTINGS) as postgres,
        KafkaServer(choose.kafka_jars(machine)) as kafka,
    ):
        _warm_up(kafka)
        yield Bench(postgres, kafka, out, cache)


def _warm_up(kafka: KafkaServer) -> None:
    """The first idempotent producer of a broker's life waits while a coordinator is made; no peer is to be that one."""
    topic = kafka.create_topic()
    producer = Producer({**kafka.client_settings(), "enable.idempotence": True, "log_level": 0})
    producer.produce(topic, b"warm")
    producer.flush(30)
    kafka.delete_topics(topic)


@contextmanager
def place(bench: Bench, peer: Peer, variant: Variant, log: Path) -> Iterator[Place]:
    """For one measurement. Afterwards its slots, database, topic and directory are gone; its log stays."""
    with _directory(bench.out) as directory, _database(bench) as database, _topic(bench) as topic:
        site = _site(bench, database, topic, directory / "peer")
        site.directory.mkdir()
        outbox = peer.outbox(variant)
        database.execute(outbox.ddl)
        peer.prepare(site, variant)
        log.parent.mkdir(parents=True, exist_ok=True)
        log.unlink(missing_ok=True)
        yield Place(site, database, outbox, peer.command(site, variant), directory / "arrivals", log)


@contextmanager
def _directory(path: Path) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="place-", dir=path, ignore_cleanup_errors=True) as name:
        yield Path(name).absolute()


@contextmanager
def _database(bench: Bench) -> Iterator[Database]:
    database = bench.postgres.create_database()
    try:
        yield database
    finally:
        database.drop()


@contextmanager
def _topic(bench: Bench) -> Iterator[str]:
    # With a dot, as most outboxes' topics have: wal-listener publishes to no others.
    topic = bench.kafka.create_topic(f"bench.events-{uuid.uuid4().hex[:12]}", partitions=_PARTITIONS)
    try:
        yield topic
    finally:
        bench.kafka.delete_topics(topic)


def _site(bench: Bench, database: Database, topic: str, directory: Path) -> Site:
    return Site(
        host=LOOPBACK,
        port=bench.postgres.port,
        user="postgres",
        password="postgres",
        database=database.name,
        bootstrap_servers=bench.kafka.bootstrap_servers,
        topic=topic,
        directory=directory,
        http_port=free_port(),
    )
