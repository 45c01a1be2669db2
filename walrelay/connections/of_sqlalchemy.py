"""SQLAlchemy 2: Connection and Session, sync and async, over any driver that SQLAlchemy has for PostgreSQL."""

from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any

from sqlalchemy import Connection, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session
from sqlalchemy.orm import Session, scoped_session

from walrelay.connections.contract import AnyConnection, OutsideTransaction
from walrelay.connections.statement import Row, Statement

_HOW = (
    "Leave the isolation level AUTOCOMMIT off for this engine or connection; then `with engine.begin()` or"
    " `with Session.begin()` is the transaction."
)


def adapted(connection: object) -> AnyConnection | None:
    if isinstance(connection, Connection | Session | scoped_session):
        return SyncSqlalchemy(connection)
    if isinstance(connection, AsyncConnection | AsyncSession | async_scoped_session):
        return AsyncSqlalchemy(connection)
    return None


class SyncSqlalchemy:
    """A session's statements go to the connection of its transaction; it is not flushed for them."""

    def __init__(self, given: Connection | Session | scoped_session[Any]) -> None:
        self._given = given

    def require_transaction(self, what: str) -> None:
        if _commits_by_itself(self._connection):
            raise OutsideTransaction(what, _HOW)

    def execute(self, statement: Statement) -> list[Row]:
        result = self._connection.execute(text(statement.text), dict(statement.parameters))
        return [tuple(row) for row in result] if statement.answers else []

    def savepoint(self) -> AbstractContextManager[object]:
        return self._given.begin_nested()

    def copies(self) -> bool:
        return False

    def copy(self, table: tuple[str, str], columns: list[str], lines: Iterable[str]) -> None:
        raise NotImplementedError("SQLAlchemy has no COPY")

    @property
    def _connection(self) -> Connection:
        return self._given if isinstance(self._given, Connection) else self._given.connection()


class AsyncSqlalchemy:
    """See SyncSqlalchemy."""

    def __init__(self, given: AsyncConnection | AsyncSession | async_scoped_session[Any]) -> None:
        self._given = given

    async def require_transaction(self, what: str) -> None:
        connection = await self._connection()
        if await connection.run_sync(_commits_by_itself):
            raise OutsideTransaction(what, _HOW.replace("with", "async with"))

    async def execute(self, statement: Statement) -> list[Row]:
        result = await (await self._connection()).execute(text(statement.text), dict(statement.parameters))
        return [tuple(row) for row in result] if statement.answers else []

    def savepoint(self) -> AbstractAsyncContextManager[object]:
        return self._given.begin_nested()

    def copies(self) -> bool:
        return False

    async def copy(self, table: tuple[str, str], columns: list[str], lines: Iterable[str]) -> None:
        raise NotImplementedError("SQLAlchemy has no COPY")

    async def _connection(self) -> AsyncConnection:
        return self._given if isinstance(self._given, AsyncConnection) else await self._given.connection()


def _commits_by_itself(connection: Connection) -> bool:
    """Whether its isolation level is AUTOCOMMIT. The drivers say so; SQLAlchemy would ask the server."""
    return bool(getattr(connection.connection.dbapi_connection, "autocommit", False))
