"""An outbox table as `walrelay init` makes it, in a database without a relay."""

from collections.abc import Iterator

import pytest

from tests.servers.database import Database, Postgres
from walrelay.ddl import script

_SCHEMA = "CREATE SCHEMA IF NOT EXISTS walrelay"


@pytest.fixture(scope="package")
def _one_database(postgres: Postgres) -> Iterator[Database]:
    fresh = postgres.create_database()
    yield fresh
    fresh.drop()


@pytest.fixture
def database(_one_database: Database) -> Iterator[Database]:
    """Empty but for the outbox."""
    _one_database.execute(script("outbox", table="public.outbox"))
    yield _one_database
    _one_database.empty()
