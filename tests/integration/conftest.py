"""One database for many tests, empty for each: making one for each would take half of their time."""

from collections.abc import Iterator

import pytest

from tests.servers.database import Database, Postgres


@pytest.fixture(scope="package")
def _one_database(postgres: Postgres) -> Iterator[Database]:
    fresh = postgres.create_database()
    yield fresh
    fresh.drop()


@pytest.fixture
def emptied_database(_one_database: Database) -> Iterator[Database]:
    """As if it were new."""
    yield _one_database
    _one_database.empty()
