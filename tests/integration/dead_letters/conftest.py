"""The table of dead letters of one slot, as the relay and an operator have it."""

from collections.abc import Iterator

import pytest

from tests.servers.database import Database
from walrelay.ddl import script
from walrelay.dead_letters import DeadLetterTable, DeadLetterTableWriter
from walrelay.postgres.catalog import Catalog

SLOT = "walrelay"


@pytest.fixture
def catalog(database: Database) -> Iterator[Catalog]:
    database.execute(script("schema"))
    database.execute(script("dead_letters"))
    with Catalog(database.dsn) as catalog:
        yield catalog


@pytest.fixture
def letters(catalog: Catalog) -> DeadLetterTableWriter:
    return DeadLetterTableWriter(catalog, SLOT, lambda topic: "kafka")


@pytest.fixture
def table(catalog: Catalog) -> DeadLetterTable:
    return DeadLetterTable(catalog, SLOT)
