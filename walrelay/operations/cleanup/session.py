"""A connection that works beside the writers: it gives way where it would have to wait, and makes nobody wait."""

from contextlib import AbstractContextManager
from typing import Any

from walrelay.errors import WalrelayError
from walrelay.postgres import rights
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.connect import Cursor
from walrelay.postgres.failures import ErrorWords, InTheWay, explained, first_line
from walrelay.postgres.locks import cleanup_lock, hold

ROW_PATIENCE = 0.5  # seconds to wait for a row that somebody has locked: nobody waits behind that
TABLE_PATIENCE = 0.05  # seconds to wait for a lock behind which writers queue up

# A deletion that a crash undoes is done again, so its commit waits for no disk and no standby. One statement is one
# transaction, with one snapshot: a row that is changed meanwhile is an error then, and not looked at in its new form.
# Only a range of pages is ever read, which the planner might do in another way if the table's statistics are odd; what
# it must not do then seems to cost so much that questions to the catalog would be compiled.
_SETTINGS = (
    "SET TimeZone = 'UTC'; SET DateStyle = 'ISO, MDY'; SET row_security = off; SET synchronous_commit = off;"
    " SET default_transaction_isolation = 'repeatable read'; SET idle_in_transaction_session_timeout = '60s';"
    " SET enable_seqscan = off; SET enable_indexscan = off; SET enable_bitmapscan = off;"
    " SET enable_indexonlyscan = off; SET jit = off"
)

_BY_ANOTHER_ROLE = (
    "It must not be subject to the table's row-level security (BYPASSRLS), and to make and drop partitions it must own"
    " the table."
)


class Busy(Exception):
    """Somebody else has what the statement needs, or it took too long; nothing was changed."""


class Session(Catalog):
    """Questions, as a catalog answers them, and short transactions."""

    def __init__(self, dsn: str) -> None:
        super().__init__(dsn)
        try:
            with self._explained(_SETTINGS):
                self.connection.execute(_SETTINGS)
                self._give_way(ROW_PATIENCE)
        except WalrelayError:
            self.close()
            raise

    def changed(self, statement: str, *parameters: Any) -> int:
        """How many rows it deletes, in a transaction of its own; or Busy. `%%` stands for a per cent sign."""
        return self._attempt(statement, list(parameters)).rowcount

    def counts(self, query: str, *parameters: Any) -> tuple[int, ...]:
        """Its only row; or Busy. `%%` stands for a per cent sign."""
        (row,) = self._attempt(query, list(parameters)).fetchall()
        return tuple(row)

    def at_once(self, *statements: str) -> None:
        """All of them, verbatim, in one transaction, or none: Busy unless every lock is to be had at once."""
        self._give_way(TABLE_PATIENCE)
        try:
            with self._explained(""), self.connection.transaction():
                self.connection.execute("SET LOCAL statement_timeout = '1s'")  # what has its lock makes others wait
                for statement in statements:
                    self._attempt(statement, None)
        finally:
            if not self.connection.closed:
                self._give_way(ROW_PATIENCE)

    def alone(self, table: str) -> None:
        """Fatal if another clean-up of the table is under way; from now on, as long as this connection lives, no other
        can be.
        """
        hold(self, cleanup_lock(self, table), patience=0)

    def _give_way(self, patience: float) -> None:
        self.connection.execute(f"SET lock_timeout = {int(patience * 1000)}".encode())

    def _attempt(self, statement: str, parameters: list[Any] | None) -> Cursor:
        """Without parameters (None, not an empty list) a per cent sign stands for itself and is not doubled."""
        with self._explained(statement):
            try:
                return self.connection.execute(statement.encode(), parameters)
            except InTheWay as cause:
                raise Busy(first_line(cause)) from cause

    def _explained(self, statement: str) -> AbstractContextManager[None]:
        return explained(
            ErrorWords(
                "the connection that cleans up broke",
                f"the role {self.connection.info.user!r} may not clean up",
                "the clean-up cannot go on",
            ),
            lambda: rights.grants_for_statement(self.connection, statement) or _BY_ANOTHER_ROLE,
        )
