"""Connections of asyncpg, from a pool too."""

from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager
from typing import Any, cast

import asyncpg

from walrelay.connections.contract import AnyConnection, OutsideTransaction
from walrelay.connections.statement import Row, Statement

_HOW = "Write `async with connection.transaction():` around it; asyncpg begins none by itself."
_CHUNK = 64 * 1024


def adapted(connection: object) -> AnyConnection | None:
    kinds = (asyncpg.Connection, asyncpg.pool.PoolConnectionProxy)
    return AsyncAsyncpg(connection) if isinstance(connection, kinds) else None


class AsyncAsyncpg:
    """`connection` is an asyncpg.Connection, or the proxy that a pool returns."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def require_transaction(self, what: str) -> None:
        if not self._connection.is_in_transaction():
            raise OutsideTransaction(what, _HOW)

    async def execute(self, statement: Statement) -> list[Row]:
        text, values = statement.numbered()
        return [tuple(record) for record in await self._connection.fetch(text, *values)]

    def savepoint(self) -> AbstractAsyncContextManager[object]:
        return cast(AbstractAsyncContextManager[object], self._connection.transaction())

    def copies(self) -> bool:
        return True

    async def copy(self, table: tuple[str, str], columns: list[str], lines: Iterable[str]) -> None:
        schema, name = table
        source = _chunks(lines)
        await self._connection.copy_to_table(name, schema_name=schema, columns=columns, source=source, format="text")


async def _chunks(lines: Iterable[str]) -> AsyncIterator[bytes]:
    """Larger than lines: each chunk is a message on the wire."""
    chunk = bytearray()
    for line in lines:
        chunk += line.encode()  # asyncpg's sessions are in UTF-8
        if len(chunk) >= _CHUNK:
            yield bytes(chunk)
            chunk.clear()
    if chunk:
        yield bytes(chunk)
