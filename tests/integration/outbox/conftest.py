"""An outbox table as `walrelay init` makes it, in a database without a relay."""

from collections.abc import Iterator

import pytest
from sqlalchemy import create_engine
from sqlalchemy.orm import Session, sessionmaker
from sqlalchemy.pool import NullPool

from tests.integration.libraries import url
from tests.integration.outbox.orders import Base
from tests.servers.database import Database
from walrelay.ddl import script
from walrelay.outbox import Outbox
from walrelay.outbox.sqlalchemy import write_recorded


@pytest.fixture
def database(emptied_database: Database) -> Database:
    """Empty but for the outbox."""
    emptied_database.execute(script("outbox", table="public.outbox"))
    return emptied_database


@pytest.fixture
def sessions(database: Database) -> Iterator[sessionmaker[Session]]:
    """Of the mapped shop; they write what its objects record."""
    engine = create_engine(url(database.dsn, "psycopg"), poolclass=NullPool)
    Base.metadata.create_all(engine)
    made = sessionmaker(engine)
    write_recorded(made, Outbox())
    yield made
    engine.dispose()
