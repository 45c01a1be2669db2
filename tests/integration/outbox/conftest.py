"""An outbox table as `walrelay init` makes it, in a database without a relay."""

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import create_engine
from sqlalchemy.orm import Session, sessionmaker
from sqlalchemy.pool import NullPool

from tests.integration.libraries import django_database, url
from tests.integration.outbox.django_orders import order_model
from tests.integration.outbox.histories import TABLES
from tests.integration.outbox.orders import Base
from tests.servers.database import Database, Postgres
from walrelay.ddl import script
from walrelay.outbox import Outbox
from walrelay.outbox.sqlalchemy import write_recorded


@pytest.fixture
def database(emptied_database: Database) -> Database:
    """Empty but for the outbox."""
    emptied_database.execute(script("outbox", table="public.outbox"))
    return emptied_database


@pytest.fixture
def databases(database: Database, postgres: Postgres) -> Iterator[list[Database]]:
    """Two with an outbox each and the tables of random histories."""
    other = postgres.create_database()
    other.execute(script("outbox", table="public.outbox"))
    for each in (database, other):
        each.execute(TABLES)
    yield [database, other]
    other.drop()


@pytest.fixture
def sessions(database: Database) -> Iterator[sessionmaker[Session]]:
    """Of the mapped shop; they write what its objects record."""
    engine = create_engine(url(database.dsn, "psycopg"), poolclass=NullPool)
    Base.metadata.create_all(engine)
    made = sessionmaker(engine)
    write_recorded(made, Outbox())
    yield made
    engine.dispose()


@pytest.fixture
def orders(database: Database) -> Iterator[Any]:
    """Django's model of an order, with its table in the default database."""
    with django_database(database.dsn) as connection:
        model = order_model()
        with connection.schema_editor() as editor:
            editor.create_model(model)
        yield model
