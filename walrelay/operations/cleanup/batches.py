"""Goes through a table in batches of pages, while writers work.

The connection gives way instead of waiting, and makes no writer wait; the size of a batch and the pause after it follow
from how long the last ones took.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from time import monotonic
from typing import Any, NamedTuple

from walrelay.errors import WalrelayError
from walrelay.postgres import rights
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.connect import Cursor
from walrelay.postgres.failures import ErrorWords, InTheWay, explained, first_line
from walrelay.postgres.locks import cleanup_lock, hold
from walrelay.table.published import PartConditions, SqlCondition
from walrelay.table.selection import verbatim

ROW_PATIENCE = 0.5  # seconds to wait for a locked row: no one else waits meanwhile
TABLE_PATIENCE = 0.05  # seconds to wait for a lock behind which writers queue up

# A deletion that a crash undoes is done again, so its commit waits for no disk and no standby. One statement is one
# transaction, with one snapshot: a row that is changed meanwhile is an error then, and not looked at in its new form.
# Only a range of pages is ever read, which the planner might do in another way if the table's statistics are odd.
_SETTINGS = (
    "SET row_security = off; SET synchronous_commit = off;"
    " SET default_transaction_isolation = 'repeatable read'; SET idle_in_transaction_session_timeout = '60s';"
    " SET enable_seqscan = off; SET enable_indexscan = off; SET enable_bitmapscan = off;"
    " SET enable_indexonlyscan = off"
)

_BY_ANOTHER_ROLE = (
    "It must not be subject to the table's row-level security (BYPASSRLS), and to make and drop partitions it must own"
    " the table."
)


class Busy(Exception):
    """A lock that the statement needs is taken, or it took too long; nothing was changed."""


class Session(Catalog):
    """A Catalog with short transactions."""

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
        """Returns how many rows it deletes, in its own transaction; or Busy. `%%` stands for a per cent sign."""
        return self._attempt(statement, list(parameters)).rowcount

    def counts(self, query: str, *parameters: Any) -> tuple[int, ...]:
        """Returns its only row; or Busy. `%%` stands for a per cent sign."""
        (row,) = self._attempt(query, list(parameters)).fetchall()
        return tuple(row)

    def at_once(self, *statements: str, provided: SqlCondition | None = None) -> bool:
        """Executes all of them in one transaction, or none: Busy unless every lock is free. `provided`: a condition,
        asked when the first has taken its lock; False, and nothing is changed, where it does not hold.
        """
        self._give_way(TABLE_PATIENCE)
        try:
            with self._explained(""), self.connection.transaction():
                self.connection.execute("SET LOCAL statement_timeout = '1s'")  # others wait while it has its locks
                first, *others = statements
                self._attempt(first, None)
                if provided is not None and not self._holds(*provided):
                    return False
                for statement in others:
                    self._attempt(statement, None)
            return True
        finally:
            if not self.connection.closed:
                self._give_way(ROW_PATIENCE)

    def _holds(self, condition: str, parameters: list[Any]) -> bool:
        ((holds,),) = self._attempt(f"SELECT coalesce({condition}, false)", parameters).fetchall()
        return bool(holds)

    def alone(self, table: str) -> None:
        """Fatal if another clean-up of the table runs. Keeps others out for as long as this connection lives."""
        hold(self, cleanup_lock(self, table), patience=0)

    def _give_way(self, patience: float) -> None:
        self.connection.execute(f"SET lock_timeout = {int(patience * 1000)}".encode())

    def _attempt(self, statement: str, parameters: list[Any] | None) -> Cursor:
        """Without parameters (None, not an empty list) a per cent sign is not doubled."""
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


# Seconds that a batch should take. It is short, because other commits wait until the WAL of the batch is on disk too.
# No one waits for the locks of a batch.
TARGET = 0.01
_FIRST, _MOST = 32, 8192  # pages
_LONGEST_PAUSE = 5.0


class Rhythm:
    """The pages of the next batch, and the pause before it; both follow from how long the last one took."""

    def __init__(self, share: float, target: float | None = None) -> None:
        """`share`: of the time to work, above 0 and up to 1."""
        self._share, self._target = share, TARGET if target is None else target
        self.pages = _FIRST

    def took(self, seconds: float) -> float:
        """The pause after a batch that took so long."""
        factor = min(2.0, max(0.25, self._target / max(seconds, 1e-6)))
        self.pages = min(_MOST, max(1, int(self.pages * factor)))
        return min(_LONGEST_PAUSE, seconds * (1 / self._share - 1))

    def gave_way(self) -> None:
        """After a batch that could not be done."""
        self.pages = max(1, self.pages // 4)


_ATTEMPTS = 5
_PAUSE = 0.2  # seconds after which a batch that gave way is tried again

Wait = Callable[[float], object]


class Batch(NamedTuple):
    """The pages before `end` of `pages` are done; `counts`: rows of each condition, in this batch.

    `passed_over`: it was skipped, because rows in it were locked.
    """

    end: int
    pages: int
    counts: tuple[int, ...]
    passed_over: bool = False


class Heap:
    """One table, without its children. `wait` passes that many seconds, or fewer when it is time to stop."""

    def __init__(self, session: Session, name: str, rhythm: Rhythm, wait: Wait) -> None:
        self._session, self._name, self._rhythm, self._wait = session, name, rhythm, wait
        self._quoted = verbatim(name)

    def delete(self, rows: PartConditions, first: int = 0) -> Iterator[Batch]:
        """Deletes rows that may go; counts them, and rows that are not known to be published."""
        yield from self._batches(first, lambda tids: self._deleted(tids, rows))

    def count(self, *conditions: SqlCondition) -> Iterator[Batch]:
        """Counts the rows of each condition."""
        yield from self._batches(0, lambda tids: self._counts(tids, conditions))

    def _deleted(self, tids: str, rows: PartConditions) -> tuple[int, ...]:
        unknown = (0,) if rows.all_known else self._counts(tids, [rows.unknown()])
        condition, parameters = rows.going()
        statement = f"DELETE FROM ONLY {self._quoted} AS o WHERE {tids} AND {condition}"
        return self._session.changed(statement, *parameters), *unknown

    def _counts(self, tids: str, conditions: Sequence[SqlCondition]) -> tuple[int, ...]:
        listed = ", ".join(f"count(*) FILTER (WHERE {condition})" for condition, _ in conditions)
        parameters = [each for _, parameters in conditions for each in parameters]
        return self._session.counts(f"SELECT {listed} FROM ONLY {self._quoted} AS o WHERE {tids}", *parameters)

    def _batches(self, first: int, work: Callable[[str], tuple[int, ...]]) -> Iterator[Batch]:
        pages, begin, failures = self._pages(), first, 0
        while begin < pages:
            end, begun = min(pages, begin + self._rhythm.pages), monotonic()
            try:
                batch = Batch(end, pages, work(f"o.ctid >= '({begin},0)' AND o.ctid < '({end},0)'"))
                pause = self._rhythm.took(monotonic() - begun)
            except Busy:
                failures, pause = failures + 1, _PAUSE
                if failures < _ATTEMPTS or end - begin > 1:
                    self._rhythm.gave_way()
                    self._wait(pause)
                    continue
                batch = Batch(end, pages, (), passed_over=True)
            yield batch
            begin, failures = end, 0
            if begin < pages:
                self._wait(pause)

    def _pages(self) -> int:
        query = "SELECT pg_relation_size(%s::regclass) / current_setting('block_size')::int8"
        return int(self._session.value(query, self._name))
