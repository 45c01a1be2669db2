"""Each library that applications connect with, behind one face, so that a test is written once for all of them.

Those of the async kind run in an event loop of the client's own, one call at a time. A client is to be used in the
thread that opened it.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager, suppress
from typing import Any, NamedTuple

import asyncpg
import django
import django.conf
import psycopg
import psycopg2
import sqlalchemy
import sqlalchemy.ext.asyncio
import sqlalchemy.orm
from psycopg.conninfo import conninfo_to_dict


class Client(NamedTuple):
    """An open connection and what a test does with it; `wait` takes what a call on the connection returned."""

    connection: Any
    execute: Callable[[str], list[tuple[Any, ...]]]
    begin: Callable[[], None]
    commit: Callable[[], None]
    roll_back: Callable[[], None]
    close: Callable[[], None]
    wait: Callable[[Any], Any]
    is_async: bool

    @contextmanager
    def block(self, made: Any) -> Iterator[Any]:
        """A block of walrelay.inbox, entered as its kind wants it."""
        if not self.is_async:
            with made as value:
                yield value
            return
        value = self.wait(made.__aenter__())
        try:
            yield value
        except BaseException as error:
            self.wait(made.__aexit__(type(error), error, error.__traceback__))
            raise
        self.wait(made.__aexit__(None, None, None))


class Library(NamedTuple):
    """`open(dsn)`: a client that is in no transaction yet; `open(dsn, True)`: one that commits each statement."""

    name: str
    open: Callable[[str, bool], Client]

    def __str__(self) -> str:
        return self.name


@contextmanager
def transaction(library: Library, dsn: str) -> Iterator[Client]:
    """A connection in a transaction, committed at the end, rolled back after an error."""
    client = library.open(dsn, False)
    try:
        client.begin()
        try:
            yield client
        except BaseException:
            client.roll_back()
            raise
        client.commit()
    finally:
        client.close()


@contextmanager
def autocommit(library: Library, dsn: str) -> Iterator[Client]:
    """A connection that commits each statement by itself."""
    client = library.open(dsn, True)
    try:
        yield client
    finally:
        client.close()


def _same(value: Any) -> Any:
    return value


def _nothing() -> None:
    pass


def _psycopg(dsn: str, autocommit: bool) -> Client:
    connection = psycopg.connect(dsn, autocommit=autocommit)
    execute = _psycopg_on(connection)
    return Client(connection, execute, _nothing, connection.commit, connection.rollback, connection.close, _same, False)


def _psycopg_async(dsn: str, autocommit: bool) -> Client:
    runner = asyncio.Runner()
    connection = runner.run(psycopg.AsyncConnection.connect(dsn, autocommit=autocommit))

    async def execute(query: str) -> list[tuple[Any, ...]]:
        cursor = await connection.execute(query.encode())
        return await cursor.fetchall() if cursor.description else []

    return _async_client(runner, connection, execute, _done, connection.commit, connection.rollback, connection.close)


def _psycopg_pipeline(dsn: str, autocommit: bool) -> Client:
    """In a block that begins a transaction, in a pipeline; nothing is waited for that has no answer."""
    connection = psycopg.connect(dsn, autocommit=True)
    stack = ExitStack()

    def begin() -> None:
        stack.enter_context(connection.pipeline())
        stack.enter_context(connection.transaction())

    def roll_back() -> None:
        stack.__exit__(psycopg.Rollback, psycopg.Rollback(), None)

    execute = _psycopg_on(connection)
    return Client(connection, execute, begin, stack.close, roll_back, connection.close, _same, False)


def _psycopg_on(connection: psycopg.Connection[Any]) -> Callable[[str], list[tuple[Any, ...]]]:
    def execute(query: str) -> list[tuple[Any, ...]]:
        cursor = connection.execute(query.encode())
        return cursor.fetchall() if cursor.description else []

    return execute


def _psycopg_async_pipeline(dsn: str, autocommit: bool) -> Client:
    runner = asyncio.Runner()
    connection = runner.run(psycopg.AsyncConnection.connect(dsn, autocommit=True))
    stack = AsyncExitStack()

    async def execute(query: str) -> list[tuple[Any, ...]]:
        cursor = await connection.execute(query.encode())
        return await cursor.fetchall() if cursor.description else []

    async def begin() -> None:
        await stack.enter_async_context(connection.pipeline())
        await stack.enter_async_context(connection.transaction())

    async def roll_back() -> None:
        await stack.__aexit__(psycopg.Rollback, psycopg.Rollback(), None)

    return _async_client(runner, connection, execute, begin, stack.aclose, roll_back, connection.close)


def _asyncpg_pool(dsn: str, autocommit: bool) -> Client:
    """What a pool gives for a connection."""
    runner = asyncio.Runner()
    pool = runner.run(_asyncpg_pooled(dsn))
    connection = runner.run(_awaited(pool.acquire()))
    transaction = connection.transaction()

    async def execute(query: str) -> list[tuple[Any, ...]]:
        return [tuple(record) for record in await connection.fetch(query)]

    async def close() -> None:
        await pool.release(connection)
        await pool.close()

    return _async_client(
        runner, connection, execute, transaction.start, transaction.commit, transaction.rollback, close
    )


async def _asyncpg_pooled(dsn: str) -> Any:
    return await asyncpg.create_pool(min_size=1, max_size=1, **_asyncpg_place(dsn))


async def _awaited(value: Any) -> Any:
    return await value


def _asyncpg(dsn: str, autocommit: bool) -> Client:
    runner = asyncio.Runner()
    connection = runner.run(_asyncpg_connected(dsn))
    transaction = connection.transaction()

    async def execute(query: str) -> list[tuple[Any, ...]]:
        return [tuple(record) for record in await connection.fetch(query)]

    return _async_client(
        runner, connection, execute, transaction.start, transaction.commit, transaction.rollback, connection.close
    )


async def _asyncpg_connected(dsn: str) -> Any:
    return await asyncpg.connect(**_asyncpg_place(dsn))


def _asyncpg_place(dsn: str) -> dict[str, Any]:
    """The connection string as asyncpg's keywords."""
    known: dict[str, Any] = conninfo_to_dict(dsn)
    names = {"host": "host", "port": "port", "user": "user", "password": "password", "database": "dbname"}
    return {theirs: known.get(libpqs) for theirs, libpqs in names.items()}


def _sqlalchemy(driver: Any, name: str, session: bool) -> Callable[[str, bool], Client]:
    def opened(dsn: str, autocommit: bool) -> Client:
        options = {"isolation_level": "AUTOCOMMIT"} if autocommit else {}
        engine = sqlalchemy.create_engine(
            f"postgresql+{name}://", creator=lambda: driver.connect(dsn), poolclass=sqlalchemy.NullPool, **options
        )
        given: Any = sqlalchemy.orm.Session(engine) if session else engine.connect()

        def execute(query: str) -> list[tuple[Any, ...]]:
            result = given.execute(sqlalchemy.text(query))
            return [tuple(row) for row in result] if result.returns_rows else []

        return Client(given, execute, _nothing, given.commit, given.rollback, given.close, _same, False)

    return opened


def _sqlalchemy_async(name: str, session: bool) -> Callable[[str, bool], Client]:
    def opened(dsn: str, autocommit: bool) -> Client:
        runner = asyncio.Runner()
        engine = async_engine(dsn, name, **({"isolation_level": "AUTOCOMMIT"} if autocommit else {}))
        made = sqlalchemy.ext.asyncio.AsyncSession(engine) if session else engine.connect()
        given: Any = made if session else runner.run(_started(made))

        async def execute(query: str) -> list[tuple[Any, ...]]:
            result = await given.execute(sqlalchemy.text(query))
            return [tuple(row) for row in result] if result.returns_rows else []

        return _async_client(runner, given, execute, _done, given.commit, given.rollback, given.close)

    return opened


def async_engine(dsn: str, name: str = "asyncpg", **options: Any) -> sqlalchemy.ext.asyncio.AsyncEngine:
    """Without a pool, unless `poolclass` says otherwise."""

    async def connected() -> Any:
        return await (_asyncpg_connected(dsn) if name == "asyncpg" else psycopg.AsyncConnection.connect(dsn))

    options = {"poolclass": sqlalchemy.NullPool, **options}
    return sqlalchemy.ext.asyncio.create_async_engine(f"postgresql+{name}://", async_creator=connected, **options)


async def _started(connection: Any) -> Any:
    return await connection.start()


async def _done() -> None:
    pass


def _async_client(
    runner: asyncio.Runner, connection: Any, execute: Any, begin: Any, commit: Any, roll_back: Any, close: Any
) -> Client:
    def wait(value: Any) -> Any:
        return runner.run(_awaited(value))

    def end() -> None:
        wait(close())
        runner.close()

    return Client(
        connection,
        lambda query: wait(execute(query)),
        lambda: wait(begin()),
        lambda: wait(commit()),
        lambda: wait(roll_back()),
        end,
        wait,
        True,
    )


def _django(dsn: str, autocommit: bool) -> Client:
    from django.db import transaction

    alias = f"test_{conninfo_to_dict(dsn)['dbname']}"
    connection = _django_connection(dsn, alias)
    atomic = transaction.atomic(using=alias)

    def execute(query: str) -> list[tuple[Any, ...]]:
        with connection.cursor() as cursor:
            cursor.execute(query)
            return list(cursor.fetchall()) if cursor.description else []

    def roll_back() -> None:
        transaction.set_rollback(True, using=alias)
        atomic.__exit__(None, None, None)

    return Client(
        connection,
        execute,
        atomic.__enter__,
        lambda: atomic.__exit__(None, None, None),
        roll_back,
        connection.close,
        _same,
        False,
    )


def _django_connection(dsn: str, alias: str) -> Any:
    if not django.conf.settings.configured:
        django.conf.settings.configure(DATABASES={}, USE_TZ=True)
        django.setup()
    from django.db import connections

    known, before = conninfo_to_dict(dsn), connections.databases.get(alias)
    connections.databases[alias] = connections.configure_settings(
        {
            "default": {},
            alias: {
                "ENGINE": "django.db.backends.postgresql",
                "NAME": known["dbname"],
                "HOST": known.get("host", ""),
                "PORT": known.get("port", ""),
                "USER": known.get("user", ""),
                "PASSWORD": known.get("password", ""),
            },
        }
    )[alias]
    if before is not None and before["PORT"] != connections.databases[alias]["PORT"]:
        with suppress(AttributeError):  # not in this thread
            del connections[alias]  # it would lead to where the database was before
    return connections[alias]


@contextmanager
def django_database(dsn: str, alias: str = "default") -> Iterator[Any]:
    """This is one of Django's databases; models go to the default one."""
    connection = _django_connection(dsn, alias)
    from django.db import connections

    try:
        yield connection
    finally:
        connection.close()
        del connections[alias]  # the next one is made for the database of then


def url(dsn: str, driver: str) -> sqlalchemy.URL:
    """The connection string as SQLAlchemy's."""
    known: dict[str, Any] = conninfo_to_dict(dsn)
    return sqlalchemy.URL.create(
        f"postgresql+{driver}",
        username=known.get("user"),
        password=known.get("password"),
        host=known.get("host"),
        port=int(known["port"]) if known.get("port") else None,
        database=known.get("dbname"),
    )


LIBRARIES = [
    Library("psycopg", _psycopg),
    Library("psycopg-async", _psycopg_async),
    Library("asyncpg", _asyncpg),
    Library("sqlalchemy-psycopg", _sqlalchemy(psycopg, "psycopg", session=False)),
    Library("sqlalchemy-psycopg2", _sqlalchemy(psycopg2, "psycopg2", session=False)),
    Library("session-psycopg", _sqlalchemy(psycopg, "psycopg", session=True)),
    Library("session-psycopg2", _sqlalchemy(psycopg2, "psycopg2", session=True)),
    Library("async-sqlalchemy-asyncpg", _sqlalchemy_async("asyncpg", session=False)),
    Library("async-sqlalchemy-psycopg", _sqlalchemy_async("psycopg", session=False)),
    Library("async-session-asyncpg", _sqlalchemy_async("asyncpg", session=True)),
    Library("async-session-psycopg", _sqlalchemy_async("psycopg", session=True)),
    Library("django", _django),
]
"""All of them; parametrize with `ids=str`."""

IN_OTHER_WAYS = [
    Library("psycopg-pipeline", _psycopg_pipeline),
    Library("psycopg-async-pipeline", _psycopg_async_pipeline),
    Library("asyncpg-pool", _asyncpg_pool),
]
"""The same libraries, used otherwise: a test of what they share with the others need not be run on them."""
