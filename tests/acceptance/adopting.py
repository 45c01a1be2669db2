"""Outbox tables of other workers, relayed as they are: each is written as its own writers do."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from tests.acceptance.deployment import Deployment
from tests.servers.topics import Received

SYSTEMS = Path(__file__).parent / "systems"
"""Their tables."""

Adopted = Callable[..., Deployment]
"""Makes a deployment on the table of a system, with its preset."""


@contextmanager
def relayed(deployment: Deployment) -> Iterator[psycopg.Connection[Any]]:
    """A writer's connection; at the end all that was written is in Kafka."""
    relay = deployment.start()
    with deployment.database.connect(autocommit=False) as connection:
        yield connection
    deployment.catch_up()
    relay.stop()


def headers(message: Received) -> dict[str, str | None]:
    """The headers but for the position, which is another each time."""
    found = {name: None if value is None else value.decode() for name, value in message.headers}
    assert len(found) == len(message.headers)
    return {name: value for name, value in found.items() if name != "position"}


def insert(connection: psycopg.Connection[Any], table: str, **row: object) -> None:
    names = ", ".join(row)
    places = ", ".join(["%s"] * len(row))
    connection.execute(f"INSERT INTO {table} ({names}) VALUES ({places})".encode(), [*row.values()])
