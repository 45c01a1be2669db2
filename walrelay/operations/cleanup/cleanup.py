"""One pass of a clean-up: finds out what may go, deletes rows or drops whole days, and makes the coming days."""

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, time
from random import uniform
from time import monotonic

from walrelay.errors import Fatal
from walrelay.operations.cleanup.batches import Batch, Busy, Heap, Rhythm, Session, Wait
from walrelay.operations.cleanup.request import CleanupReport, CleanupRequest, CleanupStep
from walrelay.postgres.parts import NothingKnown, managed_by_partman
from walrelay.table import days
from walrelay.table.days import Day, Partitions, partitions
from walrelay.table.published import (
    CleanupHorizon,
    CleanupParts,
    PartConditions,
    SqlCondition,
    cleanup_horizon,
    refuse_changed_records,
    slot_behind_error,
    slots_behind,
    written_time,
)
from walrelay.table.selection import TableDescription, describe_table
from walrelay.wiring import Wiring

_LOOK = 0.1  # seconds between two queries for what the slots have confirmed
_NUDGE = 1.0  # seconds after which an idle server is made to write some WAL
_ATTEMPTS = 20  # to get a lock that others hold
_PAUSE = 0.5  # seconds at most between two attempts


@contextmanager
def cleaning(
    wiring: Wiring, request: CleanupRequest, wait: Wait, reached: dict[str, int] | None = None
) -> Iterator[tuple[Iterator[CleanupStep], CleanupReport]]:
    """The steps of a pass, to be iterated over for as long as it may go on, and its report so far.

    `wait` passes the time between two batches; `reached`: the page that an earlier pass reached in each table.
    """
    with Session(wiring.dsn) as session:
        session.refuse_standby()
        pass_ = Cleanup(
            session, describe_table(session, wiring), wiring.table, request, wait, {} if reached is None else reached
        )
        yield pass_.steps(wiring.slot, wiring.publication, wiring.outbox.columns.created_at), pass_.tally


class Cleanup:
    """Works while its steps are iterated over, and stops after the current batch when that stops.

    `reached`: by table, the page that an earlier pass reached; kept up to date for a later one.
    """

    def __init__(
        self,
        session: Session,
        outbox: TableDescription,
        table: str,
        request: CleanupRequest,
        wait: Wait,
        reached: dict[str, int],
    ) -> None:
        self._session, self._outbox, self._table, self._request = session, outbox, table, request
        self._wait, self._reached = wait, reached
        self._rhythm = Rhythm(request.pace)
        self.tally = CleanupReport()
        self._days = PartitionDays(session, table, self.tally, self._rhythm, wait, dry_run=request.dry_run)

    def steps(self, slot: str, publication: str | None, created_at: str | None) -> Iterator[CleanupStep]:
        """To the end of the pass. Fatal where nothing may be deleted."""
        if not self._request.dry_run:
            self._session.alone(self._table)
        if self._outbox.partitioned:
            self._make_days()
        if self._request.older_than is not None:
            written = written_time(self._outbox, created_at)
            cutoff = self._session.value("SELECT now() - make_interval(secs => %s)", self._request.older_than)
            edge = cleanup_horizon(self._session, slot, self._table, publication)
            parts = CleanupParts(self._session, edge, self._outbox, self._table, written, str(cutoff))
            yield from self._until_confirmed(edge)
            refuse_changed_records(self._session, edge, self._table)
            self._tell_what_holds_back(cutoff)
            yield from self._clean(parts, cutoff)
            refuse_changed_records(self._session, edge, self._table)
            if rows := self.tally.unknown:
                they = "1 row is" if rows == 1 else f"{rows} rows are"
                self.tally.notes.append(f"{they} from before the slot: it is not known whether they were published")
        self.tally.complete = True

    def _make_days(self) -> None:
        found = partitions(self._session, self._table)
        if managed_by_partman(self._session, self._table):
            self.tally.notes.append(
                "pg_partman manages the partitions: walrelay makes and drops none (set retention in its part_config)"
            )
        elif found.ours:
            self._days.make(found)

    def _until_confirmed(self, edge: CleanupHorizon) -> Iterator[CleanupStep]:
        begun = nudged = monotonic()
        while slots := slots_behind(self._session, edge):
            now = monotonic()
            if now - begun > self._request.patience:
                raise slot_behind_error(slots[0], edge, self._request.patience)
            if now - nudged > _NUDGE:
                # The position asked for may be behind the header of a page that nothing was written to yet.
                self._session.rows("SELECT pg_current_xact_id()")
                nudged = now
            what = f"slot {slots[0].name} to confirm {edge.lsn}"
            yield CleanupStep(what, now - begun, self._request.patience, waits=True)
            self._wait(_LOOK)

    def _tell_what_holds_back(self, cutoff: datetime) -> None:
        oldest = self._session.rows(
            "SELECT format('PID %%s %%L', pid, application_name), xact_start FROM pg_stat_activity"
            " WHERE backend_xid IS NOT NULL AND xact_start < %s"
            " UNION ALL SELECT format('prepared transaction %%L', gid), prepared FROM pg_prepared_xacts"
            " WHERE prepared < %s ORDER BY 2 LIMIT 1",
            cutoff,
            cutoff,
        )
        for who, since in oldest:
            self.tally.notes.append(
                f"{who} has been open since {since:%Y-%m-%d %H:%M}: rows that were written later stay"
            )

    def _clean(self, parts: CleanupParts, cutoff: datetime) -> Iterator[CleanupStep]:
        if not self._outbox.partitioned:
            yield from self._delete(self._table, parts)
            return
        found = partitions(self._session, self._table)
        ours = found.ours and not managed_by_partman(self._session, self._table)
        if ours:
            for table, batch in self._days.drop(found, parts, cutoff):
                yield CleanupStep(f"looking through {table}", batch.end, batch.pages)
        tables = found.others if ours or not managed_by_partman(self._session, self._table) else []
        for table in [*tables, *([found.default] if found.default else [])]:
            yield from self._delete(table, parts)

    def _delete(self, table: str, parts: CleanupParts) -> Iterator[CleanupStep]:
        rows = parts.rows(table)
        if isinstance(rows, NothingKnown):
            self.tally.notes.append(f"{rows.why}; its rows stay: `walrelay init` takes note of it")
            return
        heap = Heap(self._session, table, self._rhythm, self._wait)
        if self._request.dry_run:
            batches = heap.count(rows.going(), rows.unknown())
        else:
            batches = heap.delete(rows, self._reached.get(table, 0))
        for batch in batches:
            self._count(table, batch)
            yield CleanupStep(f"cleaning {table}", batch.end, batch.pages)
        self._reached.pop(table, None)

    def _count(self, table: str, batch: Batch) -> None:
        if batch.passed_over:
            self.tally.notes.append(f"skipped pages up to {batch.end} of {table}: rows there are locked")
            return
        self.tally.rows += batch.counts[0]
        self.tally.unknown += batch.counts[1]
        if not self._request.dry_run:
            self._reached[table] = batch.end


class PartitionDays:
    """The days of one outbox, `table` quoted. If `dry_run`, it only reports what it would do."""

    def __init__(
        self, session: Session, table: str, tally: CleanupReport, rhythm: Rhythm, wait: Wait, *, dry_run: bool
    ) -> None:
        self._session, self._table, self._tally = session, table, tally
        self._rhythm, self._wait, self._dry_run = rhythm, wait, dry_run

    def make(self, found: Partitions) -> None:
        """Makes the coming days. A day of which the default partition has rows already stays there."""
        ((schema, table),) = self._session.rows(
            "SELECT nspname::text, relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace"
            " WHERE c.oid = to_regclass(%s)",
            self._table,
        )
        for day in days.days_to_make(found.days):
            if found.default is not None and self._session.value(days.has_rows_of_day(found.default, day)):
                self._tally.notes.append(f"no partition for {day}: {found.default} already has events of that day")
            elif self._dry_run or self._done(*days.NewDays(schema, table).statements(day)):
                self._tally.made.append(str(day))

    def drop(self, found: Partitions, parts: CleanupParts, cutoff: datetime) -> Iterator[tuple[str, Batch]]:
        """Drops days that ended before `cutoff` and are published completely; detached ones first."""
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
        """Rows may have been written to it until it was detached, and again where it was attached meanwhile."""
        still = parts.unchanged(table)
        count = yield from self._published(table, parts.rows_of_detached(table))
        if count is None:
            return
        lock = f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE"
        if self._dry_run or self._done(lock, f"DROP TABLE {table}", provided=still):
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

    def _done(self, *statements: str, provided: SqlCondition | None = None) -> bool:
        """Executes them when their locks are free; returns whether it could. `provided`: see `Session.at_once`."""
        for _ in range(_ATTEMPTS):
            try:
                if self._session.at_once(*statements, provided=provided):
                    return True
                self._tally.notes.append(f"it was changed after its rows were counted, and stays ({statements[-1]})")
                return False
            except Busy as cause:
                busy = cause
                if self._wait(uniform(0.1, _PAUSE)):
                    return False
            except Fatal as error:
                self._tally.notes.append(f"{error} ({statements[-1]})")
                return False
        self._tally.notes.append(f"postponed, other sessions use the table: {busy} ({statements[0]})")
        return False
