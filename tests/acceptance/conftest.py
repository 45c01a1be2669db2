"""Fixtures of the acceptance tests: deployments, whose relays end with the test and must have logged JSON only."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from tests.acceptance.adopting import SYSTEMS, Adopted
from tests.acceptance.deployment import Deployment
from tests.brokers import Broker
from tests.servers.database import Database, Postgres
from tests.servers.topics import Kafka


class Deploy(Protocol):
    """Makes a deployment; the keywords are sections of the settings, to be merged with what tests need."""

    def __call__(self, database: Database, broker: Kafka | Broker, topic: str, **sections: Any) -> Deployment: ...


class Measured(Protocol):
    """Notes a number for the end of the session and the JUnit report."""

    def __call__(self, name: str, value: object) -> None: ...


@pytest.fixture
def measured(record_property: Measured) -> Measured:
    return lambda name, value: record_property(name, str(value))


@pytest.fixture
def deploy(tmp_path: Path) -> Iterator[Deploy]:
    deployments: list[Deployment] = []

    def make(database: Database, broker: Kafka | Broker, topic: str, **sections: Any) -> Deployment:
        deployments.append(Deployment(tmp_path, database, broker, topic, **sections))
        return deployments[-1]

    yield make
    relays = [relay for deployment in deployments for relay in deployment.relays]
    for relay in relays:
        if relay.running:
            relay.kill()
    # A traceback, or a library that writes to stderr by itself, breaks whatever collects the log.
    assert [line for relay in relays for line in relay.not_json] == []


@pytest.fixture
def deployment(deploy: Deploy, database: Database, kafka: Kafka, topic: str) -> Deployment:
    """On the shared servers, with the default settings."""
    return deploy(database, kafka, topic)


@pytest.fixture
def adopted(deploy: Deploy, database: Database, kafka: Kafka, topic: str) -> Adopted:
    """On the shared servers, and the table of a system."""

    def made(preset: str, **sections: Any) -> Deployment:
        database.execute((SYSTEMS / f"{preset}.sql").read_text())
        return deploy(database, kafka, topic, **{"outbox": {"preset": preset}, "route": {}, **sections})

    return made


@pytest.fixture
def second(postgres: Postgres) -> Iterator[Database]:
    """Another database of the same server."""
    fresh = postgres.create_database()
    yield fresh
    fresh.drop()
