"""A database with the tables of walrelay.inbox and a table of the consumer's own."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from tests.integration.libraries import LIBRARIES, Library
from tests.servers.database import Database
from tests.servers.waiting import wait_until
from walrelay.inbox import IdempotencyKeys, Inbox


@pytest.fixture(params=LIBRARIES, ids=str)
def library(request: pytest.FixtureRequest) -> Library:
    """Each library that applications connect with."""
    found: Library = request.param
    return found


@pytest.fixture
def database(emptied_database: Database) -> Database:
    return emptied_database


@pytest.fixture
def consumers(database: Database) -> Database:
    """Has the tables, and `handled (what text)`."""
    with database.connect() as connection:
        Inbox().create(connection)
        IdempotencyKeys().create(connection)
        connection.execute("CREATE TABLE handled (what text NOT NULL)")
    return database


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    """For transactions at the same time."""
    with ThreadPoolExecutor(8) as pool:
        yield pool


WaitForLock = Callable[..., None]


@pytest.fixture
def waits_for_a_lock(consumers: Database) -> WaitForLock:
    """Returns when `count` transactions of the database wait for another one to end."""

    def wait(future: "Future[object] | None" = None, count: int = 1) -> None:
        def waiting() -> bool:
            if future is not None and future.done():
                future.result()
                raise AssertionError("it has not waited")
            ((found,),) = consumers.execute(
                "SELECT count(*) FROM pg_stat_activity"
                " WHERE datname = current_database() AND wait_event_type = 'Lock' AND wait_event = 'transactionid'"
            )
            return bool(found >= count)

        wait_until(waiting, 10, f"{count} transactions to wait for another one")

    return wait
