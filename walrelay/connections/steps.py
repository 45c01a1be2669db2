"""What is done on a connection, written once for sync and async: a generator that yields statements and gets rows."""

from collections.abc import Generator
from typing import TypeVar

from walrelay.connections.contract import AsyncConnection, SyncConnection
from walrelay.connections.statement import Row, Statement

T = TypeVar("T")

Steps = Generator[Statement, list[Row], T]


def run(connection: SyncConnection, steps: Steps[T]) -> T:
    """Executes the statements one after the other; returns the generator's result."""
    try:
        statement = next(steps)
        while True:
            statement = steps.send(connection.execute(statement))
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


async def run_async(connection: AsyncConnection, steps: Steps[T]) -> T:
    """Like `run`, awaited."""
    try:
        statement = next(steps)
        while True:
            statement = steps.send(await connection.execute(statement))
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
