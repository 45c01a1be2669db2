"""Which rows may be deleted: those that are published, as far as every slot of the outbox has confirmed it.

A row has no LSN; its transaction is known by its number. At the beginning of a pass a snapshot is taken, and then the
end of the WAL is looked up: every transaction below the snapshot's xmin had ended before that, so what such a one
committed is published once the slots have confirmed up to there. What a later one wrote is left to the next pass.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from walrelay.errors import Fatal
from walrelay.identifiers import identifier
from walrelay.lsn import LSN, ZERO
from walrelay.source.backfill_progress import refusal, unfinished
from walrelay.source.catalog import Catalog, Slot
from walrelay.source.outbox_table import OutboxTable

_ROUND = 2**32
_TIMES = {1114, 1184}  # timestamp, timestamptz

_COMMIT_TIME = "pg_xact_commit_timestamp(o.xmin)"

# As outbox_selection.xid8, but in each statement with its own snapshot: a row that was written after the pass began has
# a number above that of the pass, and would seem to be one from 2^32 transactions ago.
_NEWEST = "(SELECT pg_snapshot_xmax(pg_current_snapshot())::text::int8 - 1)"
_XID8 = f"({_NEWEST} - (({_NEWEST} - o.xmin::text::int8) & 4294967295))"


class Horizon(NamedTuple):
    """Rows of transactions below `xmin` are published once `slots` have confirmed up to `lsn`; but nothing is known of
    those before `published_from`.

    `since`: empty, or a time at which the slot was there, where numbers that came round do not tell which is before.
    """

    slots: Sequence[str]
    xmin: int
    lsn: LSN
    published_from: int
    since: str


class _Record(NamedTuple):
    slot: str
    of_this_system: bool
    published_from: int | None
    made_at: str


def horizon(catalog: Catalog, slot: str, table: str) -> Horizon:
    """As it is now, for the outbox `table` that `slot` is for; Fatal where nothing may be deleted."""
    catalog.refuse_standby()
    records = {record.slot: record for record in _records(catalog, slot, table)}
    own = records.get(slot)
    if own is None or not own.of_this_system or own.published_from is None:
        raise Fatal(
            f"walrelay.slots does not say from when on slot {slot!r} publishes the rows of {table}",
            hint="`walrelay init` takes note of it. Rows from before that are left alone.",
        )
    for name in records:
        if (progress := unfinished(catalog, name)) is not None:
            raise refusal(progress)
    xmin, lsn = catalog.horizon()
    newest = int(catalog.value("SELECT pg_snapshot_xmax(pg_current_snapshot())::text::int8"))
    came_round = 0 < own.published_from <= newest - _ROUND
    return Horizon(list(records), xmin, lsn, own.published_from, own.made_at if came_round else "")


def behind(catalog: Catalog, horizon: Horizon) -> list[Slot]:
    """The slots that have not confirmed up to the horizon yet; Fatal for one that never will."""
    slots = [_readable(catalog.slot(name), name) for name in horizon.slots]
    return [slot for slot in slots if (slot.confirmed_flush_lsn or ZERO) < horizon.lsn]


def held_by(slot: Slot, horizon: Horizon, patience: float) -> Fatal:
    """Why the horizon was not confirmed in time."""
    where = f"slot {slot.name!r} stands at {slot.confirmed_flush_lsn}, and not at {horizon.lsn} after {patience:g} s"
    if slot.active_pid is None:
        return Fatal(
            f"it is not known to be published what may be deleted: {where}, because no relay reads it",
            hint="Start it: `walrelay run`. A slot that nobody needs any more holds up every clean-up of its outbox:"
            " `walrelay drop` with its settings.",
        )
    return Fatal(
        f"it is not known to be published what may be deleted: {where}; the relay (PID {slot.active_pid}) reads it",
        hint="Its broker may be away, or it has much to catch up with: `walrelay status` and its log. Or give"
        " `walrelay cleanup --timeout` more time.",
    )


def _readable(slot: Slot | None, name: str) -> Slot:
    if slot is not None and slot.wal_status != "lost" and not slot.invalidation_reason:
        return slot
    raise Fatal(
        f"slot {name!r} is {'gone' if slot is None else 'lost'}: what it had not published is in the table only",
        hint="`walrelay recover` with its settings publishes that and makes the slot anew. If nobody needs it any"
        " more: `walrelay drop`.",
    )


def _records(catalog: Catalog, slot: str, table: str) -> Iterator[_Record]:
    """Of the slot, and of every other that may be this outbox's: one whose table is not known, or is gone, counts."""
    if catalog.value("SELECT to_regclass('walrelay.slots')") is None:
        return
    rows = catalog.rows(
        "SELECT slot_name, s.system_identifier = c.system_identifier::text,"
        " (r->>'published_from')::int8, r->>'created_at'"
        " FROM (SELECT s.*, to_jsonb(s) AS r FROM walrelay.slots s) AS s, pg_control_system() c,"
        " LATERAL (SELECT (r->>'table_oid')::int8 AS oid) AS noted"
        " WHERE slot_name = %s OR (s.system_identifier = c.system_identifier::text AND (noted.oid IS NULL"
        " OR noted.oid = to_regclass(%s)::oid::int8"
        " OR NOT EXISTS (SELECT FROM pg_class WHERE pg_class.oid::int8 = noted.oid)))",
        slot,
        table,
    )
    yield from (_Record(*row) for row in rows)


class Rows:
    """Conditions over a row `o`, each with its parameters."""

    def __init__(self, horizon: Horizon, table: OutboxTable, written: str, cutoff: str) -> None:
        ours = f"({table.condition.replace('%', '%%')})" if table.condition else "true"
        self._ours, self._old = ours, f"{written} < %s::timestamptz"
        self._cutoff = cutoff
        self._since = horizon.since
        self._known = f"{_XID8} >= {horizon.published_from}"
        if horizon.since:
            self._known = f"({self._known} AND coalesce({written} >= %s::timestamptz, false))"
        if not horizon.published_from:
            self._known = "true"
        self._ended = f"{_XID8} < {horizon.xmin}"

    def published(self) -> tuple[str, list[Any]]:
        """Published and confirmed, of whatever age."""
        return f"{self._ours} AND {self._ended} AND {self._known}", self._times_known

    def going(self) -> tuple[str, list[Any]]:
        """Old enough as well."""
        published, parameters = self.published()
        return f"{self._old} AND {published}", [self._cutoff, *parameters]

    def unknown(self) -> tuple[str, list[Any]]:
        """Old enough, but from before anything is known to be published."""
        return f"{self._old} AND {self._ours} AND NOT {self._known}", [self._cutoff, *self._times_known]

    @property
    def all_known(self) -> bool:
        """Whether there is no row of which it is not known."""
        return self._known == "true"

    @property
    def _times_known(self) -> list[Any]:
        return [self._since] if self._since else []


def written_at(table: OutboxTable, created_at: str | None) -> str:
    """The expression for a row's age: the column for it, or the commit's time where the server keeps that."""
    if created_at is not None and table.types.get(created_at) in _TIMES:
        return f"o.{identifier(created_at)}::timestamptz".replace("%", "%%")
    if table.commits:
        return _COMMIT_TIME
    raise Fatal(
        f"nothing says how old the rows of {table.name.replace('%%', '%')} are: it has no column of type timestamptz"
        " that outbox.columns.created_at names",
        hint="Name one; or let the server keep the times of commits: ALTER SYSTEM SET track_commit_timestamp = on;"
        " and restart it.",
    )
