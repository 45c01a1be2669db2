"""An outbox table as `walrelay init` makes it, in a database without a relay."""

import pytest

from tests.servers.database import Database
from walrelay.ddl import script


@pytest.fixture
def database(emptied_database: Database) -> Database:
    """Empty but for the outbox."""
    emptied_database.execute(script("outbox", table="public.outbox"))
    return emptied_database
