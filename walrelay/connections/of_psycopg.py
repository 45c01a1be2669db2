"""Connections of psycopg 3, in pipeline mode too."""

from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

import psycopg
from psycopg import sql
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from walrelay.connections.contract import AnyConnection, OutsideTransaction
from walrelay.connections.statement import Row, Statement

_HOW = "Write `with connection.transaction():` around it, or connect without autocommit=True."
_SAVEPOINT = "walrelay"  # PostgreSQL uses the newest of that name, so they may be nested


def adapted(connection: object) -> AnyConnection | None:
    if isinstance(connection, psycopg.Connection):
        return SyncPsycopg(connection)
    return AsyncPsycopg(connection) if isinstance(connection, psycopg.AsyncConnection) else None


class SyncPsycopg:
    """Uses cursors of its own: the application's row factory and kind of cursor do not matter."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection

    def require_transaction(self, what: str) -> None:
        if not self._connection.autocommit or _in_block(self._connection):
            return
        if self._status is TransactionStatus.ACTIVE:  # a pipeline, whose BEGIN may be in flight
            self._sync()
        if self._status is TransactionStatus.IDLE:
            raise OutsideTransaction(what, _HOW)

    def execute(self, statement: Statement) -> list[Row]:
        cursor = psycopg.Cursor(self._connection, row_factory=tuple_row)
        cursor.execute(statement.pyformat().encode(), statement.parameters)
        return cursor.fetchall() if statement.answers else []

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        # Not connection.transaction(): where none has begun yet, that would be the whole transaction, and commit it.
        self._connection.execute(f"SAVEPOINT {_SAVEPOINT}")
        try:
            yield
            self._sync()  # raises the error of a statement in a pipeline
        except BaseException:
            if not self._connection.closed and self._status is not TransactionStatus.IDLE:  # rolled back already
                with suppress(psycopg.Error):  # the error that aborted the pipeline
                    self._sync()
                self._connection.execute(f"ROLLBACK TO SAVEPOINT {_SAVEPOINT}")
                self._connection.execute(f"RELEASE SAVEPOINT {_SAVEPOINT}")
            raise
        self._connection.execute(f"RELEASE SAVEPOINT {_SAVEPOINT}")

    def copies(self) -> bool:
        return self._connection.pgconn.pipeline_status == psycopg.pq.PipelineStatus.OFF

    def _sync(self) -> None:
        """Waits for the statements of a pipeline, and raises their error; an aborted pipeline can then go on."""
        if not self.copies():
            with self._connection.pipeline():
                pass

    def copy(self, table: tuple[str, str], columns: list[str], lines: Iterable[str]) -> None:
        encoding = _encoding(self._connection.info)
        with psycopg.Cursor(self._connection) as cursor, cursor.copy(_copy(table, columns)) as copy:
            for line in lines:
                copy.write(line.encode(encoding))

    @property
    def _status(self) -> TransactionStatus:
        return self._connection.info.transaction_status


class AsyncPsycopg:
    """See SyncPsycopg."""

    def __init__(self, connection: psycopg.AsyncConnection[Any]) -> None:
        self._connection = connection

    async def require_transaction(self, what: str) -> None:
        if not self._connection.autocommit or _in_block(self._connection):
            return
        if self._status is TransactionStatus.ACTIVE:
            await self._sync()
        if self._status is TransactionStatus.IDLE:
            raise OutsideTransaction(what, _HOW.replace("with", "async with", 1))

    async def execute(self, statement: Statement) -> list[Row]:
        cursor = psycopg.AsyncCursor(self._connection, row_factory=tuple_row)
        await cursor.execute(statement.pyformat().encode(), statement.parameters)
        return await cursor.fetchall() if statement.answers else []

    @asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        await self._connection.execute(f"SAVEPOINT {_SAVEPOINT}")
        try:
            yield
            await self._sync()
        except BaseException:
            if not self._connection.closed and self._status is not TransactionStatus.IDLE:  # rolled back already
                with suppress(psycopg.Error):
                    await self._sync()
                await self._connection.execute(f"ROLLBACK TO SAVEPOINT {_SAVEPOINT}")
                await self._connection.execute(f"RELEASE SAVEPOINT {_SAVEPOINT}")
            raise
        await self._connection.execute(f"RELEASE SAVEPOINT {_SAVEPOINT}")

    def copies(self) -> bool:
        return self._connection.pgconn.pipeline_status == psycopg.pq.PipelineStatus.OFF

    async def _sync(self) -> None:
        if not self.copies():
            async with self._connection.pipeline():
                pass

    async def copy(self, table: tuple[str, str], columns: list[str], lines: Iterable[str]) -> None:
        encoding = _encoding(self._connection.info)
        async with psycopg.AsyncCursor(self._connection) as cursor, cursor.copy(_copy(table, columns)) as copy:
            for line in lines:
                await copy.write(line.encode(encoding))

    @property
    def _status(self) -> TransactionStatus:
        return self._connection.info.transaction_status


def _in_block(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> bool:
    """Whether a `connection.transaction()` is open. psycopg has no public name for it; without it the status
    decides.
    """
    return getattr(connection, "_num_transactions", 0) > 0


def _encoding(info: psycopg.ConnectionInfo) -> str:
    """The session's, as psycopg has it for parameters: that of the database, unless the client asked for another."""
    return "utf-8" if info.encoding == "ascii" else info.encoding


def _copy(table: tuple[str, str], columns: list[str]) -> sql.Composed:
    listed = sql.SQL(", ").join(sql.Identifier(column) for column in columns)
    return sql.SQL("COPY {} ({}) FROM STDIN").format(sql.Identifier(*table), listed)
