"""One transaction on a connection of each library that applications use: it commits, or an error rolls it back."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, contextmanager
from typing import Any

import asyncpg
import django
import psycopg
from django.conf import settings as django_settings
from django.db import connections as django_connections
from django.db import transaction as django_transaction
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import dict_row
from sqlalchemy import create_engine
from sqlalchemy.engine import URL
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import sessionmaker
from sqlalchemy.pool import NullPool

Transaction = Callable[[str], AbstractContextManager[Any]]
AsyncTransaction = Callable[[str], AbstractAsyncContextManager[Any]]


def url(dsn: str, driver: str) -> URL:
    """For SQLAlchemy."""
    parts: dict[str, Any] = conninfo_to_dict(dsn)
    return URL.create(
        f"postgresql+{driver}",
        username=parts.get("user"),
        password=parts.get("password"),
        host=parts.get("host"),
        port=int(parts.get("port") or 5432),
        database=parts.get("dbname"),
    )


@contextmanager
def psycopg_transaction(dsn: str) -> Iterator[Any]:
    with psycopg.connect(dsn, row_factory=dict_row) as connection:
        yield connection


@contextmanager
def psycopg_block(dsn: str) -> Iterator[Any]:
    """In autocommit, with a block that begins a transaction."""
    with psycopg.connect(dsn, autocommit=True) as connection, connection.transaction():
        yield connection


@contextmanager
def psycopg_pipeline(dsn: str) -> Iterator[Any]:
    with psycopg.connect(dsn, autocommit=True) as connection, connection.pipeline(), connection.transaction():
        yield connection


def sqlalchemy_connection(driver: str) -> Transaction:
    @contextmanager
    def begun(dsn: str) -> Iterator[Any]:
        with create_engine(url(dsn, driver), poolclass=NullPool).begin() as connection:
            yield connection

    return begun


@contextmanager
def sqlalchemy_session(dsn: str) -> Iterator[Any]:
    with sessionmaker(create_engine(url(dsn, "psycopg"), poolclass=NullPool)).begin() as session:
        yield session


@contextmanager
def django_on(dsn: str) -> Iterator[Any]:
    """Django's default database is this one."""
    parts: dict[str, Any] = conninfo_to_dict(dsn)
    place = {"NAME": parts["dbname"], "USER": parts.get("user", ""), "PASSWORD": parts.get("password", "")}
    database = {
        "ENGINE": "django.db.backends.postgresql",
        "HOST": parts["host"],
        "PORT": parts.get("port", ""),
        **place,
    }
    if not django_settings.configured:
        django_settings.configure(DATABASES={"default": database}, INSTALLED_APPS=[], USE_TZ=True)
        django.setup()
    django_connections.databases["default"].update(database)
    try:
        yield django_connections["default"]
    finally:
        django_connections["default"].close()
        del django_connections["default"]  # the next one is made for the database of then


@contextmanager
def django_atomic(dsn: str) -> Iterator[Any]:
    with django_on(dsn) as connection, django_transaction.atomic():
        yield connection


@asynccontextmanager
async def psycopg_async(dsn: str) -> AsyncIterator[Any]:
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        yield connection


@asynccontextmanager
async def psycopg_async_pipeline(dsn: str) -> AsyncIterator[Any]:
    async with (
        await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection,
        connection.pipeline(),
        connection.transaction(),
    ):
        yield connection


@asynccontextmanager
async def asyncpg_transaction(dsn: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(**asyncpg_place(dsn))
    try:
        async with connection.transaction():
            yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def asyncpg_pool(dsn: str) -> AsyncIterator[Any]:
    async with (
        asyncpg.create_pool(min_size=1, max_size=1, **asyncpg_place(dsn)) as pool,
        pool.acquire() as connection,
        connection.transaction(),
    ):
        yield connection


def sqlalchemy_async_connection(driver: str) -> AsyncTransaction:
    @asynccontextmanager
    async def begun(dsn: str) -> AsyncIterator[Any]:
        async with create_async_engine(url(dsn, driver), poolclass=NullPool).begin() as connection:
            yield connection

    return begun


def sqlalchemy_async_session(driver: str) -> AsyncTransaction:
    @asynccontextmanager
    async def begun(dsn: str) -> AsyncIterator[Any]:
        async with async_sessionmaker(create_async_engine(url(dsn, driver), poolclass=NullPool)).begin() as session:
            yield session

    return begun


def asyncpg_place(dsn: str) -> dict[str, Any]:
    """The connection string as asyncpg's keywords."""
    parts: dict[str, Any] = conninfo_to_dict(dsn)
    names = {"host": "host", "port": "port", "user": "user", "password": "password", "dbname": "database"}
    return {theirs: parts[ours] for ours, theirs in names.items() if ours in parts}


SYNC: dict[str, Transaction] = {
    "psycopg": psycopg_transaction,
    "psycopg block": psycopg_block,
    "psycopg pipeline": psycopg_pipeline,
    "SQLAlchemy Connection": sqlalchemy_connection("psycopg"),
    "SQLAlchemy Connection, psycopg2": sqlalchemy_connection("psycopg2"),
    "SQLAlchemy Session": sqlalchemy_session,
    "Django": django_atomic,
}
ASYNC: dict[str, AsyncTransaction] = {
    "psycopg async": psycopg_async,
    "psycopg async pipeline": psycopg_async_pipeline,
    "asyncpg": asyncpg_transaction,
    "asyncpg pool": asyncpg_pool,
    "SQLAlchemy AsyncConnection, asyncpg": sqlalchemy_async_connection("asyncpg"),
    "SQLAlchemy AsyncConnection, psycopg": sqlalchemy_async_connection("psycopg"),
    "SQLAlchemy AsyncSession": sqlalchemy_async_session("asyncpg"),
}
