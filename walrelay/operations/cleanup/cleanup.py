"""One pass of a clean-up: what may go is found out, then rows go, or whole days; and the coming days are made."""

from collections.abc import Iterator
from datetime import datetime
from time import monotonic

from walrelay.operations.cleanup.heap import Batch, Heap, Wait
from walrelay.operations.cleanup.partition_days import PartitionDays
from walrelay.operations.cleanup.rhythm import Rhythm
from walrelay.operations.cleanup.session import Session
from walrelay.operations.cleanup.tally import CleanupWish, Step, Tally
from walrelay.postgres.parts import NothingKnown, managed_by_partman
from walrelay.table.days import partitions
from walrelay.table.published import (
    CleanupHorizon,
    CleanupParts,
    cleanup_horizon,
    refuse_changed_records,
    slot_behind_error,
    slots_behind,
    written_time,
)
from walrelay.table.selection import TableDescription

_LOOK = 0.1  # seconds between two looks at what the slots have confirmed
_NUDGE = 1.0  # seconds after which a server that is idle is made to write some WAL


class Cleanup:
    """Works while its steps are iterated over; whoever stops doing so stops it after the current batch.

    `reached`: table -> the page that an earlier pass got to; kept up to date for a later one.
    """

    def __init__(
        self,
        session: Session,
        outbox: TableDescription,
        table: str,
        wish: CleanupWish,
        wait: Wait,
        reached: dict[str, int],
    ) -> None:
        self._session, self._outbox, self._table, self._wish = session, outbox, table, wish
        self._wait, self._reached = wait, reached
        self._rhythm = Rhythm(wish.pace)
        self.tally = Tally()
        self._days = PartitionDays(session, table, self.tally, self._rhythm, wait, dry_run=wish.dry_run)

    def steps(self, slot: str, publication: str | None, created_at: str | None) -> Iterator[Step]:
        """To the end of the pass, or until nobody asks for the next step. Fatal where nothing may be deleted."""
        if not self._wish.dry_run:
            self._session.alone(self._table)
        if self._outbox.partitioned:
            self._make_days()
        if self._wish.older_than is not None:
            written = written_time(self._outbox, created_at)
            cutoff = self._session.value("SELECT now() - make_interval(secs => %s)", self._wish.older_than)
            edge = cleanup_horizon(self._session, slot, self._table, publication)
            parts = CleanupParts(self._session, edge, self._outbox, self._table, written, str(cutoff))
            yield from self._until_confirmed(edge)
            refuse_changed_records(self._session, edge, self._table)
            self._tell_what_holds_back(cutoff)
            yield from self._clean(parts, cutoff)
            if rows := self.tally.unknown:
                they = "1 row is" if rows == 1 else f"{rows} rows are"
                self.tally.notes.append(f"{they} from before the slot: nobody is known to have published them")
        self.tally.complete = True

    def _make_days(self) -> None:
        found = partitions(self._session, self._table)
        if managed_by_partman(self._session, self._table):
            self.tally.notes.append(
                "pg_partman manages the partitions: walrelay makes and drops none (set retention in its part_config)"
            )
        elif found.ours:
            self._days.make(found)

    def _until_confirmed(self, edge: CleanupHorizon) -> Iterator[Step]:
        begun = nudged = monotonic()
        while slots := slots_behind(self._session, edge):
            now = monotonic()
            if now - begun > self._wish.patience:
                raise slot_behind_error(slots[0], edge, self._wish.patience)
            if now - nudged > _NUDGE:
                # The position asked for may be behind the header of a page that nothing was written to yet.
                self._session.rows("SELECT pg_current_xact_id()")
                nudged = now
            yield Step(f"slot {slots[0].name} to confirm {edge.lsn}", now - begun, self._wish.patience)
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
            self.tally.notes.append(f"{who} is open since {since:%Y-%m-%d %H:%M}: what was written later stays")

    def _clean(self, parts: CleanupParts, cutoff: datetime) -> Iterator[Step]:
        if not self._outbox.partitioned:
            yield from self._delete(self._table, parts)
            return
        found = partitions(self._session, self._table)
        ours = found.ours and not managed_by_partman(self._session, self._table)
        if ours:
            for table, batch in self._days.drop(found, parts, cutoff):
                yield Step(f"looking through {table}", batch.end, batch.pages)
        tables = found.others if ours or not managed_by_partman(self._session, self._table) else []
        for table in [*tables, *([found.default] if found.default else [])]:
            yield from self._delete(table, parts)

    def _delete(self, table: str, parts: CleanupParts) -> Iterator[Step]:
        rows = parts.rows(table)
        if isinstance(rows, NothingKnown):
            self.tally.notes.append(f"{rows.why}; its rows stay: `walrelay init` takes note of it")
            return
        heap = Heap(self._session, table, self._rhythm, self._wait)
        if self._wish.dry_run:
            batches = heap.count(rows.going(), rows.unknown())
        else:
            batches = heap.delete(rows, self._reached.get(table, 0))
        for batch in batches:
            self._count(table, batch)
            yield Step(f"cleaning {table}", batch.end, batch.pages)
        self._reached.pop(table, None)

    def _count(self, table: str, batch: Batch) -> None:
        if batch.passed_over:
            self.tally.notes.append(f"passed over pages up to {batch.end} of {table}: somebody has locked rows there")
            return
        self.tally.rows += batch.counts[0]
        self.tally.unknown += batch.counts[1]
        if not self._wish.dry_run:
            self._reached[table] = batch.end
