"""`Outbox.emit` on real connections of every library: the event is there if the transaction is, and only then."""

import asyncio
import json
from collections.abc import Callable
from typing import Any, Literal
from uuid import UUID

import asyncpg
import psycopg
import pytest
from sqlalchemy import create_engine

from tests.integration.libraries import IN_OTHER_WAYS, LIBRARIES, Library, autocommit, transaction, url
from tests.servers.database import Database, Postgres
from walrelay.ddl import script
from walrelay.outbox import Event, EventTooLarge, Json, Outbox, OutsideTransaction, UnknownConnection, context

COLUMNS = "id, aggregate_type, aggregate_id, type, payload::text, headers, topic, tenant_id"
AWKWARD = 'tab\t newline\n "quoted" \\back\\slash \\N $1 %s %(x)s :name :: ünï'


every_library = pytest.mark.parametrize("library", [*LIBRARIES, *IN_OTHER_WAYS], ids=str)


class Undo(Exception):
    """Rolls a test's transaction back."""


def event(number: int = 1, **changes: Any) -> Event:
    fields: dict[str, Any] = {
        "aggregate_type": "order",
        "aggregate_id": f"o-{number}",
        "type": "OrderPlaced",
        "payload": {"n": number, "text": AWKWARD},
        "headers": {"own": AWKWARD, "none": None},
        "topic": "elsewhere",
        "tenant_id": "acme",
    }
    return Event(**{**fields, **changes})


def rows(database: Database) -> list[tuple[Any, ...]]:
    return database.execute(f"SELECT {COLUMNS} FROM outbox ORDER BY ctid")


def expected(given: Event) -> tuple[Any, ...]:
    number = int(str(given.aggregate_id)[2:])
    payload = f'{{"n": {number}, "text": {_json(AWKWARD)}}}'
    return (given.id, "order", given.aggregate_id, "OrderPlaced", payload, given.headers, "elsewhere", "acme")


def _json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


@every_library
def test_an_event_is_committed_with_the_transaction(library: Library, database: Database) -> None:
    given = event()
    with transaction(library, database.dsn) as client:
        assert client.wait(Outbox().emit(client.connection, given)) == given.id
        assert rows(database) == []
    assert rows(database) == [expected(given)]


@every_library
def test_an_event_is_rolled_back_with_the_transaction(library: Library, database: Database) -> None:
    with pytest.raises(Undo), transaction(library, database.dsn) as client:  # noqa: PT012
        client.wait(Outbox().emit(client.connection, event()))
        client.wait(Outbox().emit_many(client.connection, [event(2), event(3)]))
        raise Undo
    assert rows(database) == []


@pytest.mark.parametrize("storage", ["row", "deleted_row", "message"])
@every_library
def test_many_events_are_written_in_their_order(library: Library, storage: Any, database: Database) -> None:
    given = [event(number) for number in range(2500)]
    with transaction(library, database.dsn) as client:
        written = client.wait(Outbox(storage=storage).emit_many(client.connection, given))
        client.wait(Outbox(storage=storage).emit_many(client.connection, []))
    assert written == [each.id for each in given]
    assert rows(database) == ([expected(each) for each in given] if storage == "row" else [])


HOW = {
    "psycopg": r"connection\.transaction\(\)",
    "asyncpg": "asyncpg begins none by itself",
    "sqlalchemy": "isolation level AUTOCOMMIT",
    "session": "isolation level AUTOCOMMIT",
    "django": r"transaction\.atomic\(\)",
}


@pytest.mark.parametrize("library", LIBRARIES, ids=str)
def test_a_connection_in_autocommit_is_refused(library: Library, database: Database) -> None:
    (how,) = (how for name, how in HOW.items() if str(library).removeprefix("async-").startswith(name))
    with autocommit(library, database.dsn) as client:
        with pytest.raises(OutsideTransaction, match=f"commits each statement by itself.*{how}"):
            client.wait(Outbox().emit(client.connection, event()))
        with pytest.raises(OutsideTransaction):
            client.wait(Outbox().emit_many(client.connection, [event()]))
    assert rows(database) == []


def test_a_pipeline_in_autocommit_is_refused(database: Database) -> None:
    with psycopg.connect(database.dsn, autocommit=True) as connection:
        with pytest.raises(OutsideTransaction), connection.pipeline():  # noqa: PT012
            connection.execute("SELECT 1")  # under way: it might have been BEGIN
            Outbox().emit_many(connection, [event()])
        with connection.transaction():
            Outbox().emit(connection, event())
    assert len(rows(database)) == 1


def test_an_async_pipeline_in_autocommit_is_refused(database: Database) -> None:
    async def write() -> None:
        async with (
            await psycopg.AsyncConnection.connect(database.dsn, autocommit=True) as connection,
            connection.pipeline(),
        ):
            await connection.execute("SELECT 1")
            await Outbox().emit(connection, event())

    with pytest.raises(OutsideTransaction, match="async with connection"):
        asyncio.run(write())
    assert rows(database) == []


@pytest.mark.parametrize("autocommit", [False, True])
def test_a_pipeline_does_not_wait_for_each_event(autocommit: bool, database: Database) -> None:
    options = "-c lock_timeout=3s"  # and whoever waits for an INSERT has this error
    with (
        database.connect(autocommit=False) as holder,
        psycopg.connect(database.dsn, autocommit=autocommit, options=options) as connection,
        connection.pipeline(),
        connection.transaction(),
    ):
        holder.execute("LOCK TABLE outbox")
        for number in range(10):
            Outbox().emit(connection, event(number))
        holder.rollback()
    assert len(rows(database)) == 10


def test_what_is_no_connection_is_named(database: Database) -> None:
    with psycopg.connect(database.dsn) as connection:
        for wrong in (connection.cursor(), object(), None, create_engine(url(database.dsn, "psycopg"))):
            with pytest.raises(UnknownConnection, match="is not a connection that walrelay knows"):
                Outbox().emit(wrong, event())


def test_an_event_that_the_broker_would_refuse_is_not_written(database: Database) -> None:
    outbox = Outbox(max_message_bytes=10_000)
    with psycopg.connect(database.dsn) as connection:
        with pytest.raises(EventTooLarge, match="OrderPlaced of order o-1 is too large"):
            outbox.emit(connection, event(payload="x" * 10_000))
        with pytest.raises(EventTooLarge):
            outbox.emit_many(connection, [event(), event(headers={"h": "x" * 10_000})])
        with pytest.raises(EventTooLarge):
            outbox.emit(connection, event(payload=Json("[1e9999]")))
        with pytest.raises(EventTooLarge):  # PostgreSQL prints a blank behind each comma
            outbox.emit(connection, event(payload=Json("[" + ",".join("1" * 4_900) + "]"), headers={}))
        outbox.emit(connection, event(payload="x" * 9_000))
    assert len(rows(database)) == 1


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
def test_many_events_are_written_in_the_encoding_of_the_session(encoding: str, postgres: Postgres) -> None:
    empty = postgres.create_database()
    empty.drop()
    postgres.execute(f"CREATE DATABASE {empty.name} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0")

    async def write() -> None:
        async with await psycopg.AsyncConnection.connect(empty.dsn) as connection:
            await Outbox().emit_many(connection, [event(payload="é")])

    try:
        empty.execute(script("outbox", table="public.outbox"))
        with psycopg.connect(empty.dsn) as connection:  # a session has its database's encoding if it asks for none
            Outbox().emit_many(connection, [event(payload="é")])
            Outbox().emit(connection, event(payload="é"))
        asyncio.run(write())
        with empty.connect(client_encoding="UTF8") as connection:
            found = connection.execute("SELECT convert_to(payload::text, getdatabaseencoding()) FROM outbox").fetchall()
        assert found == [('"é"'.encode("latin-1" if encoding == "LATIN1" else "utf-8"),)] * 3
    finally:
        empty.drop()


@pytest.mark.parametrize("storage", ["row", "deleted_row", "message"])
def test_an_asyncpg_connection_may_have_codecs_of_its_own(storage: Any, database: Database) -> None:
    async def write(connection: asyncpg.Connection) -> None:
        for kind in ("json", "jsonb"):
            await connection.set_type_codec(kind, encoder=json.dumps, decoder=json.loads, schema="pg_catalog")
        await Outbox(storage=storage).emit(connection, event(1))
        await Outbox(storage=storage).emit_many(connection, [event(2)])

    (library,) = (each for each in LIBRARIES if str(each) == "asyncpg")
    with transaction(library, database.dsn) as client:
        client.wait(write(client.connection))
    assert rows(database) == (
        [expected(event(n, id=id_)) for n, (id_, *_) in enumerate(rows(database), 1)] if storage == "row" else []
    )


def test_an_outbox_with_other_columns_and_types(database: Database) -> None:
    database.execute('CREATE TABLE "Out Box" ("Id" text, body bytea, kind text)')
    none = dict.fromkeys(("aggregate_type", "aggregate_id", "headers", "topic", "tenant_id"))
    columns = {"id": "Id", "payload": "body", "type": "kind", **none}
    outbox = Outbox('public."Out Box"', columns=columns, types={"id": "text", "payload": "bytea"})
    plain: dict[str, Any] = {"headers": {}, "topic": None, "tenant_id": None}
    binary, many = (
        event(payload=b"\x00\\\xff", **plain),
        [event(payload={"a": 1}, **plain), event(payload=None, **plain)],
    )
    with psycopg.connect(database.dsn) as connection, context(tenant_id="not kept"):
        with pytest.raises(ValueError, match="has topic, but the outbox has no column for it"):
            outbox.emit(connection, event(payload=b"", headers={}, tenant_id=None))
        outbox.emit(connection, binary)
        outbox.emit_many(connection, many)  # by COPY
        with connection.pipeline():
            outbox.emit_many(connection, [event(payload=b"\x00", **plain)])  # by INSERT
    found = database.execute('SELECT "Id", body, kind FROM "Out Box" ORDER BY ctid')
    assert [body for _, body, _ in found] == [b"\x00\\\xff", b'{"a": 1}', None, b"\x00"]
    assert [UUID(id_) for id_, *_ in found][:3] == [binary.id, *(each.id for each in many)]


@every_library
def test_many_events_are_written_under_row_level_security(library: Library, database: Database) -> None:
    """PostgreSQL refuses a COPY there, in the middle of the application's transaction."""
    role = f"writer_{database.name}"
    database.execute(
        f"CREATE ROLE {role}; GRANT USAGE ON SCHEMA public TO {role}; GRANT INSERT, SELECT ON outbox TO {role}"
    )
    try:
        database.execute("ALTER TABLE outbox ENABLE ROW LEVEL SECURITY")
        database.execute("CREATE POLICY tenants ON outbox USING (tenant_id = 'acme') WITH CHECK (tenant_id = 'acme')")
        with transaction(library, database.dsn) as client:
            client.execute(f"SET LOCAL ROLE {role}")
            client.wait(Outbox().emit_many(client.connection, [event(1), event(2)]))
        assert [row[2] for row in rows(database)] == ["o-1", "o-2"]
    finally:
        database.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")


def test_an_event_without_a_tenant_is_refused_where_one_is_required(database: Database) -> None:
    outbox = Outbox(tenant_required=True)
    with psycopg.connect(database.dsn) as connection:
        with pytest.raises(ValueError, match="event OrderPlaced of order o-1 has no tenant_id"):
            outbox.emit(connection, event(tenant_id=None))
        with context(tenant_id="acme"):
            outbox.emit(connection, event(tenant_id=None))
        outbox.emit(connection, event(tenant_id="other"))
    assert [row[-1] for row in rows(database)] == ["acme", "other"]


NO_EVENTS = {
    "NaN": '{"total": NaN}',
    "Infinity": '{"total": -Infinity}',
    "no JSON": "{",
    "more than one value": '{}, "topic": "payments"',
    "too deep": "[" * 100_000 + "]" * 100_000,
    "a number that is too large": '{"total": 1e200000}',
    "the zero character": '{"name": "\\u0000"}',
}


@pytest.mark.parametrize("text", NO_EVENTS.values(), ids=NO_EVENTS.keys())
@pytest.mark.parametrize("storage", ["row", "deleted_row", "message"])
def test_what_is_no_jsonb_is_refused_before_the_commit_however_it_is_stored(
    database: Database, storage: Literal["row", "deleted_row", "message"], text: str
) -> None:
    outbox = Outbox(storage=storage)
    for emit in (outbox.emit, lambda connection, each: outbox.emit_many(connection, [event(2), each])):
        with database.connect(autocommit=False) as connection:
            with pytest.raises((psycopg.DataError, psycopg.OperationalError, ValueError)):
                emit(connection, event(payload=Json(text)))
            connection.rollback()
            emit(connection, event(payload=Json('{"total": 1.50, "name": "\\u00e4"}')))
            connection.rollback()


@pytest.mark.parametrize("library", LIBRARIES, ids=str)
def test_an_outbox_that_is_not_there_is_named_with_the_command_that_makes_it(
    library: Library, database: Database
) -> None:
    outbox = Outbox("nope")
    calls: list[Callable[[Any], Any]] = [lambda c: outbox.emit(c, event()), lambda c: outbox.emit_many(c, [event()])]
    for call in calls:
        with pytest.raises(Exception, match="nope") as caught, transaction(library, database.dsn) as client:
            client.wait(call(client.connection))
        assert caught.value.__notes__ == [
            "`walrelay init` makes the outbox of its settings; this one writes public.nope"
        ]
