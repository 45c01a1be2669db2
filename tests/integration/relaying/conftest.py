"""What the tests of the relay's behaviour start from: an outbox, in each of the ways of reading."""

from collections.abc import Iterator
from typing import Any, Protocol

import pytest

from tests.integration.relaying import broker
from tests.integration.relaying.harness import Outbox
from tests.integration.relaying.ways import WAYS, need, there
from tests.servers import choose
from tests.servers.choose import Machine
from tests.servers.database import Database
from tests.servers.postgres import PostgresServer
from walrelay import compose
from walrelay.config import models, sinks
from walrelay.publish import load


class OutboxMaker(Protocol):
    """An outbox on the test's database, initialised; the sections of its settings as in the file."""

    def __call__(self, **sections: Any) -> Outbox: ...


@pytest.fixture(autouse=True)
def _recording_sink(monkeypatch: pytest.MonkeyPatch) -> None:
    """Puts the test's broker beside the sinks that are installed."""
    for module in (compose, models, sinks):
        monkeypatch.setattr(module, "load", lambda kind: broker.plugin if kind == broker.KIND else load(kind))


@pytest.fixture
def database(emptied_database: Database) -> Database:
    return emptied_database


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, database: Database) -> str:
    """Every test that reads does so in every way the shared server has."""
    need(request.param, database.server)
    return str(request.param)


@pytest.fixture
def make_outbox(database: Database, way: str) -> OutboxMaker:
    def make(**sections: Any) -> Outbox:
        outbox = Outbox(database, way, **sections)
        outbox.init()
        return outbox

    return make


@pytest.fixture
def every_way(database: Database) -> list[Outbox]:
    """One table, read in all ways at once: for what takes long."""
    outboxes = [Outbox(database, way) for way in there(database.server)]
    for outbox in outboxes:
        outbox.init()
    return outboxes


@pytest.fixture(scope="package")
def own_server(machine: Machine) -> Iterator[PostgresServer]:
    """A server that these tests may stop, crash and configure; each leaves it running and as it found it."""
    programs = choose.found(lambda: choose.postgres_programs(machine))
    with PostgresServer(programs, {"max_prepared_transactions": 5}) as server:
        yield server


@pytest.fixture(params=WAYS)
def own_outbox(request: pytest.FixtureRequest, own_server: PostgresServer) -> Iterator[Outbox]:
    """As `outbox`, on the server that may be stopped, crashed and configured."""
    need(request.param, own_server)
    database = own_server.create_database()
    outbox = Outbox(database, request.param)
    outbox.init()
    yield outbox
    own_server.start()
    database.drop()


@pytest.fixture
def outbox(make_outbox: OutboxMaker) -> Outbox:
    """The table that `walrelay init` makes, under default settings."""
    return make_outbox()
