"""Writers and consumers behind a real PgBouncer: what they write is there if their transaction is, and only then."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import psycopg
import pytest

from tests.integration.libraries import LIBRARIES, Client, Library
from tests.servers import choose
from tests.servers.database import Database
from tests.servers.pgbouncer import PgBouncer, pgbouncer_program
from walrelay.inbox import IdempotencyKeys, Inbox
from walrelay.outbox import Event, Outbox

NAMES = ("psycopg", "psycopg-async", "asyncpg", "session-psycopg2", "django")
Pooled = Callable[[str], str]


@pytest.fixture
def pooled(database: Database) -> Iterator[Pooled]:
    """The connection string of a PgBouncer of that mode, which has two sessions, in front of the shared server."""
    program = choose.found(pgbouncer_program)
    with database.connect() as direct, ExitStack() as stack:
        info = direct.info
        Inbox().create(direct)
        IdempotencyKeys().create(direct)

        def dsn(mode: str) -> str:
            settings = (f"pool_mode = {mode}", "default_pool_size = 2", "query_wait_timeout = 10")
            made = PgBouncer(program, info.host, info.port, info.user, info.password, *settings)
            return stack.enter_context(made).dsn(database.name)

        yield dsn


@pytest.mark.parametrize("library", [each for each in LIBRARIES if each.name in NAMES], ids=str)
def test_what_is_written_through_a_pooler_is_there_if_its_transaction_is(
    library: Library, pooled: Pooled, database: Database
) -> None:
    """The sessions change hands with each transaction; none keeps anything of ours."""
    dsn, committed = pooled("transaction"), list[str]()
    for number in range(8):
        client = _unprepared(library.open(dsn, False))
        client.begin()
        committed += _written(client, number)
        with psycopg.connect(dsn, prepare_threshold=None) as other:  # has the other session in the middle of it
            Outbox().emit(other, _event("other"))
            if number % 2:
                other.rollback()
            else:
                committed.append("other")
        client.commit()
        client.close()
        undone = _unprepared(library.open(dsn, False))
        undone.begin()
        _written(undone, -1 - number)
        undone.roll_back()
        undone.close()
    found = [type_ for (type_,) in database.execute("SELECT type FROM outbox")]
    assert sorted(found) == sorted(committed)
    assert database.execute("SELECT count(*) FROM inbox") == [(8,)]
    assert database.execute("SELECT count(*) FROM idempotency_keys WHERE status = 200") == [(8,)]


@pytest.mark.parametrize("library", [each for each in LIBRARIES if each.name in NAMES], ids=str)
def test_where_the_pooler_allows_no_transaction_nothing_is_written(
    library: Library, pooled: Pooled, database: Database
) -> None:
    client = _unprepared(library.open(pooled("statement"), False))
    with pytest.raises(Exception, match=r"transaction blocks not allowed|server closed the connection"):  # noqa: PT012
        client.begin()
        _written(client, 1)
        client.commit()
    client.close()
    assert database.execute("SELECT count(*) FROM outbox") == [(0,)]


def _written(client: Client, number: int) -> list[str]:
    """The types of the events whose rows stay."""
    connection: Any = client.connection
    for _ in range(6):  # psycopg would prepare what it is to execute the sixth time
        client.wait(Outbox().emit(connection, _event("one")))
    client.wait(Outbox().emit_many(connection, [_event("many") for _ in range(3)]))
    client.wait(Outbox(storage="deleted_row").emit(connection, _event("deleted")))
    client.wait(Outbox(storage="message").emit(connection, _event("message")))
    with client.block(Inbox().receive(connection, consumer="billing", message_id=str(number))) as first:
        assert first
    with client.block(IdempotencyKeys().claim(connection, key=str(number), request=number)) as command:
        command.respond(200)
    return ["one"] * 6 + ["many"] * 3


def _event(type_: str) -> Event:
    return Event(aggregate_type="order", aggregate_id="1", type=type_, payload={"n": 1})


def _unprepared(client: Client) -> Client:
    """As the page on writing says: psycopg prepares nothing where the next transaction may have another session."""
    if isinstance(client.connection, psycopg.Connection | psycopg.AsyncConnection):
        client.connection.prepare_threshold = None
    return client
