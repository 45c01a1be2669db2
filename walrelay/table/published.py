"""Which rows are confirmed by every slot of the outbox, and which may be deleted.

As in `walrelay.table.confirmed`, a row is known by its transaction: what transactions below a snapshot's xmin committed
is published once every slot confirmed up to the end of the WAL that was looked up after the snapshot. What a later
transaction wrote is left to the next pass.

The clean-up asks whether the outbox is published, and what its tables are, after that snapshot. So a later change
cannot have kept a row of an earlier transaction from being published; it can only put other rows in a table's place,
or begin to publish the rows again. So each statement that deletes looks, when it has locked the table, whether it is
still the same table, and whether the records of the slots are the same.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from walrelay.errors import Fatal
from walrelay.identifiers import identifier
from walrelay.lsn import LSN, ZERO
from walrelay.postgres.catalog import Catalog, Slot
from walrelay.postgres.parts import (
    ALL,
    NotedPart,
    NothingKnown,
    Part,
    PublishedSince,
    part,
    parts,
    published_since,
    unaltered,
)
from walrelay.postgres.slot_moves import refuse_gap
from walrelay.postgres.slot_records import (
    SlotRecord,
    declare_all_published,
    records_unchanged,
    slot_records,
)
from walrelay.source.start import refuse_future
from walrelay.table.backfill_journal import unfinished_backfill_error, unfinished_progress
from walrelay.table.selection import TableDescription

_ROUND = 2**32
TIMES = {1114, 1184}  # timestamp, timestamptz

_COMMIT_TIME = "pg_xact_commit_timestamp(o.xmin)"

# table.selection.xid8, but with each statement's own snapshot: a row that was written after the pass began has a number
# above the pass's, and would seem to be from 2^32 transactions ago.
_NEWEST = "(SELECT pg_snapshot_xmax(pg_current_snapshot())::text::int8 - 1)"
_XID8 = f"({_NEWEST} - (({_NEWEST} - o.xmin::text::int8) & 4294967295))"


SqlCondition = tuple[str, list[Any]]
"""SQL, and its parameters."""


class CleanupHorizon(NamedTuple):
    """Rows of transactions below `xmin` are published once `slots` have confirmed up to `lsn`; the slot's `own` record
    says from when on. `came_round`: transaction numbers wrapped around, so they do not say what is from before.
    `unchanged`: the records of `slots` are still these.
    """

    slots: Mapping[str, SlotRecord]
    xmin: int
    lsn: LSN
    own: SlotRecord
    came_round: bool
    unchanged: SqlCondition


def cleanup_horizon(catalog: Catalog, slot: str, table: str, publication: str | None) -> CleanupHorizon:
    """The horizon of now, for the outbox `table` that `slot` publishes; Fatal where nothing may be deleted."""
    catalog.refuse_standby()
    xmin, lsn = catalog.horizon()
    noted = slot_records(catalog, slot, table)
    own = noted.get(slot)
    if own is None or not own.of_this_system or own.published_from is None or own.seen is None:
        raise Fatal(
            f"walrelay.slots does not say from when on slot {slot!r} publishes the rows of {table}",
            hint="Where a relay named a gap before its slot, `walrelay recover --replace` publishes what was left out."
            " `walrelay init` takes note of it from now on; rows from before that are left alone.",
        )
    now = catalog.published(publication or "", table)
    if not own.seen.same(now.seen):
        why = now.since(own.seen, publication or "", table) or f"publication {publication!r} was altered"
        raise Fatal(
            f"rows of {table} may not have been published since `walrelay init` looked last: {why}",
            hint="`walrelay init` takes note of it. Rows from before that are then left alone, until you say that all"
            f" of them were published: {declare_all_published(slot)}",
        )
    _refuse_unfinished(catalog, noted)
    newest = int(catalog.value("SELECT pg_snapshot_xmax(pg_current_snapshot())::text::int8"))
    came_round = 0 < own.published_from <= newest - _ROUND
    return CleanupHorizon(noted, xmin, lsn, own, came_round, records_unchanged(slot, table, noted))


def refuse_changed_records(catalog: Catalog, horizon: CleanupHorizon, table: str) -> None:
    """Fatal if a slot, or the record of its outbox, was replaced since: then what the slot has confirmed says nothing
    about earlier rows. Each statement that deletes asks that, too.
    """
    now = slot_records(catalog, horizon.own.slot, table)
    _refuse_unfinished(catalog, now)
    if now != horizon.slots:
        raise Fatal(
            f"walrelay.slots changed while the clean-up of {table} was at work: nothing was deleted after that",
            hint="`walrelay init`, `walrelay recover` or `walrelay drop` was run. Run the clean-up again.",
        )


def _refuse_unfinished(catalog: Catalog, noted: Mapping[str, SlotRecord]) -> None:
    for name in noted:
        if (progress := unfinished_progress(catalog, name)) is not None:
            raise unfinished_backfill_error(catalog, name, progress)


def slots_behind(catalog: Catalog, horizon: CleanupHorizon) -> list[Slot]:
    """The slots that have not confirmed up to the horizon yet; Fatal for one that never will."""
    slots = [_readable(catalog.slot(name), name) for name in horizon.slots]
    end = catalog.current_lsn()
    for slot in slots:
        refuse_future(slot, end)
        refuse_gap(catalog, slot)
    return [slot for slot in slots if (slot.confirmed_flush_lsn or ZERO) < horizon.lsn]


def slot_behind_error(slot: Slot, horizon: CleanupHorizon, patience: float) -> Fatal:
    where = f"slot {slot.name!r} is at {slot.confirmed_flush_lsn}, and not at {horizon.lsn} after {patience:g} s"
    if slot.active_pid is None:
        return Fatal(
            f"the rows to be deleted are not known to be published: {where}, because no relay reads it",
            hint="Start it: `walrelay run`. A slot that is no longer needed holds up every clean-up of its outbox:"
            " `walrelay drop` with its settings.",
        )
    return Fatal(
        f"the rows to be deleted are not known to be published: {where}; the relay (PID {slot.active_pid}) reads it",
        hint="The broker may be away, or the relay is behind: `walrelay status` and its log. Or give"
        " `walrelay cleanup --timeout` more time.",
    )


def _readable(slot: Slot | None, name: str) -> Slot:
    if slot is not None and slot.wal_status != "lost" and not slot.invalidation_reason:
        return slot
    raise Fatal(
        f"slot {name!r} is {'gone' if slot is None else 'lost'}: what it had not published is in the table only",
        hint="`walrelay recover` with its settings publishes that and creates the slot again. If the slot is no longer"
        " needed: `walrelay drop`.",
    )


class PartConditions:
    """SQL conditions over a row `o` of one part of the outbox, each with its parameters. `since`: from when on its rows
    are published.
    """

    def __init__(
        self,
        horizon: CleanupHorizon,
        part: Part,
        since: PublishedSince,
        table: TableDescription,
        written: str,
        cutoff: str,
    ) -> None:
        ours = f"({table.condition.replace('%', '%%')})" if table.condition else "true"
        self._ours, self._old = ours, f"{written} < %s::timestamptz"
        self._is_this, self._cutoff = part.is_this, cutoff
        self._known, self._times_known = "true", list[Any]()
        if since != ALL:
            self._known = f"{_XID8} >= {since.number}"
            # A row's own time is a second witness: an UPDATE gives it a later number, but not another time. The
            # commit's time is one only where numbers wrapped around.
            if horizon.came_round or (since.time and written != _COMMIT_TIME):
                self._known = f"({self._known} AND coalesce({written} >= %s::timestamptz, false))"
                self._times_known = [since.time or horizon.own.made_at]
        self._ended = f"{_XID8} < {horizon.xmin}"
        self._unchanged = horizon.unchanged

    def published(self) -> SqlCondition:
        """Published and confirmed, of any age. No row is where a backfill or `walrelay init` was begun since."""
        unchanged, parameters = self._unchanged
        condition = f"{self._is_this} AND {unchanged} AND {self._ours} AND {self._ended} AND {self._known}"
        return condition, [*parameters, *self._times_known]

    def going(self) -> SqlCondition:
        """`published`, and old enough to be deleted."""
        published, parameters = self.published()
        return f"{self._old} AND {published}", [self._cutoff, *parameters]

    def unknown(self) -> SqlCondition:
        """Old enough, but from before anything is known to be published."""
        return f"{self._old} AND {self._ours} AND NOT {self._known}", [self._cutoff, *self._times_known]

    @property
    def all_known(self) -> bool:
        """Whether no row is `unknown`."""
        return self._known == "true"


class CleanupParts:
    """The outbox's parts at the moment this is made, which has to be after the horizon."""

    def __init__(
        self, catalog: Catalog, horizon: CleanupHorizon, table: TableDescription, name: str, written: str, cutoff: str
    ):
        self._catalog, self._horizon = catalog, horizon
        self._table, self._written, self._cutoff = table, written, cutoff
        found = parts(catalog, name)
        self._parts = dict(zip([each.name if table.partitioned else name for each in found], found, strict=True))
        self._published_from = horizon.own.published_from or 0

    def rows(self, name: str) -> PartConditions | NothingKnown:
        """What may be deleted from a part."""
        found = self._parts.get(name)
        if found is None:
            return NothingKnown(f"{name} was attached after the pass had begun")
        return self._rows(found, published_since(found, self._published_from, self._horizon.own.parts))

    def rows_of_detached(self, name: str) -> PartConditions | NothingKnown:
        """`rows` for a day that a clean-up detached, now or before: everything in it was published, or has to be
        checked again.
        """
        found = self._parts.get(name) or part(self._catalog, name)
        if found is None:
            return NothingKnown(f"{name} is gone")
        original = NotedPart(found.oid if found.original else 0, "", PublishedSince(self._published_from))
        noted = (self._horizon.own.parts or {}).get(found.oid, original)._replace(attached=found.attached)
        return self._rows(found, published_since(found, self._published_from, {found.oid: noted}))

    def unchanged(self, name: str) -> SqlCondition:
        """The table of that name is the one of now, was neither attached nor altered since, and the records still say
        from when on its rows are published.
        """
        (unaltered_table, its), (unchanged, others) = unaltered(self._catalog, name), self._horizon.unchanged
        return f"{unaltered_table} AND {unchanged}", [*its, *others]

    def _rows(self, found: Part, since: PublishedSince | NothingKnown) -> PartConditions | NothingKnown:
        if isinstance(since, NothingKnown):
            return since
        return PartConditions(self._horizon, found, since, self._table, self._written, self._cutoff)


def written_time(table: TableDescription, created_at: str | None) -> str:
    """The expression for a row's age: the column for it, or the commit's time if the server keeps that."""
    if created_at is not None and table.types.get(created_at) in TIMES:
        return f"o.{identifier(created_at)}::timestamptz".replace("%", "%%")
    if table.commits:
        return _COMMIT_TIME
    raise Fatal(
        f"nothing says how old the rows of {table.name.replace('%%', '%')} are: it has no column of type timestamptz"
        " that outbox.columns.created_at names",
        hint="Name one (beside `debezium` there is no such setting); or let the server keep the times of commits:"
        " ALTER SYSTEM SET track_commit_timestamp = on; and restart it.",
    )
