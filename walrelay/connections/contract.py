"""What outbox and inbox ask of a connection of any library."""

from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Protocol

from walrelay.connections.statement import Row, Statement


class OutsideTransaction(RuntimeError):
    """A statement that belongs in a transaction would have been committed by itself."""

    def __init__(self, what: str, how: str) -> None:
        super().__init__(
            f"{what} outside of a transaction: the connection commits each statement by itself, so the event or the"
            f" receipt would remain even if the business rows are rolled back. {how}"
        )


class SyncConnection(Protocol):
    """A connection that is in a transaction of the application's, or begins one with the next statement.

    Nothing here commits, rolls back the application's transaction or changes the connection's settings.
    """

    def require_transaction(self, what: str) -> None:
        """OutsideTransaction, with what to write instead, if the next statement would be committed by itself."""

    def execute(self, statement: Statement) -> list[Row]:
        """Returns the rows; none for a statement without `answers`."""

    def savepoint(self) -> AbstractContextManager[object]:
        """An exception that leaves it rolls back what was done inside; the transaction stays usable."""

    def copies(self) -> bool:
        """Whether `copy` may be called now; otherwise use INSERT."""

    def copy(self, table: tuple[str, str], columns: list[str], lines: Iterable[str]) -> None:
        """COPY of lines in PostgreSQL's text format into `table` (schema and name, neither quoted)."""


class AsyncConnection(Protocol):
    """See SyncConnection."""

    async def require_transaction(self, what: str) -> None:
        """See SyncConnection."""

    async def execute(self, statement: Statement) -> list[Row]:
        """See SyncConnection."""

    def savepoint(self) -> AbstractAsyncContextManager[object]:
        """See SyncConnection."""

    def copies(self) -> bool:
        """See SyncConnection."""

    async def copy(self, table: tuple[str, str], columns: list[str], lines: Iterable[str]) -> None:
        """See SyncConnection."""


AnyConnection = SyncConnection | AsyncConnection
