"""Whole days of a partitioned outbox: coming ones are made; old ones detached, looked through again, and dropped."""

from collections.abc import Generator, Iterator
from datetime import UTC, datetime, time
from random import uniform

from walrelay.errors import Fatal
from walrelay.operations.cleanup.heap import Batch, Heap, Wait
from walrelay.operations.cleanup.rhythm import Rhythm
from walrelay.operations.cleanup.session import Busy, Session
from walrelay.operations.cleanup.tally import Tally
from walrelay.postgres.parts import NothingKnown
from walrelay.table import days
from walrelay.table.days import Day, Partitions
from walrelay.table.published import CleanupParts, PartConditions

_ATTEMPTS = 20
_PAUSE = 0.5  # seconds at most between two


class PartitionDays:
    """Those of one outbox, `table` quoted. With `dry_run` it only says what it would do."""

    def __init__(
        self, session: Session, table: str, tally: Tally, rhythm: Rhythm, wait: Wait, *, dry_run: bool
    ) -> None:
        self._session, self._table, self._tally = session, table, tally
        self._rhythm, self._wait, self._dry_run = rhythm, wait, dry_run

    def make(self, found: Partitions) -> None:
        """The days that come next. One of which the default partition has rows already stays there."""
        ((schema, table),) = self._session.rows(
            "SELECT nspname::text, relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace"
            " WHERE c.oid = to_regclass(%s)",
            self._table,
        )
        for day in days.days_to_make(found.days):
            if found.default is not None and self._session.value(days.has_rows_of_day(found.default, day)):
                self._tally.notes.append(f"the events of {day} stay in {found.default}: some are there already")
            elif self._dry_run or self._done(*days.NewDays(schema, table).statements(day)):
                self._tally.made.append(str(day))

    def drop(self, found: Partitions, parts: CleanupParts, cutoff: datetime) -> Iterator[tuple[str, Batch]]:
        """Days that ended before `cutoff` and of which everything is published; first those that are detached."""
        for table in days.detached_days(self._session, self._table):
            yield from self._finish(table, parts)
        for day in found.days:
            if datetime.combine(day.end, time(), UTC) <= cutoff:
                yield from self._drop(day, parts)

    def _drop(self, day: Day, parts: CleanupParts) -> Iterator[tuple[str, Batch]]:
        count = yield from self._published(day.table, parts.rows(day.table))
        if count is None:
            return
        if self._dry_run:
            self._goes(day.table, count)
        elif self._done(*days.detach_statements(self._table, day)):
            yield from self._finish(day.table, parts)

    def _finish(self, table: str, parts: CleanupParts) -> Iterator[tuple[str, Batch]]:
        """Until it was detached somebody may have written to it."""
        count = yield from self._published(table, parts.rows_of_detached(table))
        if count is not None and (self._dry_run or self._done(f"DROP TABLE {table}")):
            self._goes(table, count)

    def _goes(self, table: str, rows: int) -> None:
        self._tally.dropped.append(table)
        self._tally.rows += rows

    def _published(
        self, table: str, rows: PartConditions | NothingKnown
    ) -> Generator[tuple[str, Batch], None, int | None]:
        """How many rows the table has, if all are published; otherwise None."""
        if isinstance(rows, NothingKnown):
            self._tally.notes.append(f"{rows.why}; it stays: `walrelay init` takes note of it")
            return None
        count = published = 0
        for batch in Heap(self._session, table, self._rhythm, self._wait).count(("true", []), rows.published()):
            yield table, batch
            if batch.passed_over:
                return None
            count, published = count + batch.counts[0], published + batch.counts[1]
        if count > published:
            self._tally.notes.append(f"{table} stays: {count - published} of its rows are not known to be published")
            return None
        return count

    def _done(self, *statements: str) -> bool:
        """Whether they were, in a moment in which nobody held a lock that is in their way."""
        for _ in range(_ATTEMPTS):
            try:
                self._session.at_once(*statements)
                return True
            except Busy as cause:
                busy = cause
                if self._wait(uniform(0.1, _PAUSE)):
                    return False
            except Fatal as error:
                self._tally.notes.append(f"{error} ({statements[-1]})")
                return False
        self._tally.notes.append(f"put off, others use the table: {busy} ({statements[0]})")
        return False
