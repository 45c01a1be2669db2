"""Servers from Docker, shared by all tests; those that stop or kill a server start it from programs."""

from collections.abc import Iterator
from contextlib import contextmanager

from testcontainers.kafka import KafkaContainer
from testcontainers.postgres import PostgresContainer

from tests.servers.database import Postgres
from tests.servers.topics import Kafka

POSTGRES_IMAGE = "postgres:17"
KAFKA_IMAGE = "confluentinc/cp-kafka:7.9.2"


@contextmanager
def postgres_container() -> Iterator[Postgres]:
    """PostgreSQL with logical decoding switched on."""
    container = PostgresContainer(
        POSTGRES_IMAGE, username="postgres", password="postgres", dbname="postgres", driver=None
    )
    container.with_command(
        "postgres -c wal_level=logical -c max_wal_senders=20 -c max_replication_slots=20 -c fsync=off"
    )
    with container:
        yield Postgres(container.get_connection_url())


@contextmanager
def kafka_container() -> Iterator[Kafka]:
    """A broker in KRaft mode that makes no topic unasked."""
    container = KafkaContainer(KAFKA_IMAGE).with_kraft()
    container.with_env("KAFKA_AUTO_CREATE_TOPICS_ENABLE", "false")
    container.with_env("KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR", "1")
    container.with_env("KAFKA_TRANSACTION_STATE_LOG_MIN_ISR", "1")
    with container:
        yield Kafka(container.get_bootstrap_server())
