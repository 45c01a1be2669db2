"""How far the relay is: what it has confirmed, since when events wait, and of which rows that says anything."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from walrelay.control.table import TABLE as RELAYS
from walrelay.control.table import pauses, relays_table_exists
from walrelay.errors import Fatal
from walrelay.operations.find.waiting import WaitingInSlot, waiting_in_slot
from walrelay.postgres.catalog import Catalog, Slot
from walrelay.postgres.failures import Denied
from walrelay.postgres.parts import NothingKnown, Part, PublishedSince, parts, published_since
from walrelay.postgres.sizes import size
from walrelay.postgres.slot_records import SlotRecord
from walrelay.postgres.snapshot import View
from walrelay.source.lag import lag_seconds
from walrelay.table.confirmed import confirmed_rows
from walrelay.table.published import CleanupHorizon, cleanup_horizon
from walrelay.wiring import Wiring

_NOW = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::int8"
_INACTIVE = (
    "SELECT (extract(epoch FROM inactive_since) * 1000000)::int8 FROM pg_replication_slots"
    " WHERE slot_name = %s AND database = current_database()"
)
_REPORTED = (
    f"SELECT (extract(epoch FROM updated_at) * 1000000)::int8 FROM {RELAYS}"
    " WHERE slot_name = %s AND position >= %s::pg_lsn"
)
_SLACK = 1_000_000  # microseconds: a commit's time is a little earlier than its place in the WAL


class PublishedFrom(NamedTuple):
    """Of a part of the table: its rows of transactions from `number` on (0: all) that were written at `time` or later
    are published once they are confirmed. `why`: nothing is known of its rows.
    """

    number: int = 0
    time: str = ""
    why: str = ""


class RelayProgress(NamedTuple):
    """`everything` that is visible is confirmed, or what transactions before `xmin` wrote. `waiting_since`: when the
    oldest event was committed that is not; `still_since`: the slot did not move since then (microseconds since 1970).
    `behind`: how far, for people; `lost`: why the slot says nothing; `in_slot`: what waits there, if nobody reads it.
    """

    everything: bool = False
    xmin: int = 0
    waiting_since: int | None = None
    still_since: int | None = None
    behind: str = ""
    lost: str = ""
    in_slot: WaitingInSlot = WaitingInSlot()
    parts: Mapping[int, PublishedFrom] = {}

    def confirmed(self, id_: str, xid: int, committed_at: int | None) -> bool:
        """Whether the relay is past that row."""
        if self.everything or xid < self.xmin or (self.in_slot.complete and id_ not in self.in_slot.ids):
            return True
        since = self.waiting_since
        return committed_at is not None and since is not None and committed_at < since - _SLACK

    def waits(self, id_: str, at: int | None) -> bool:
        """Whether it is not past that row, committed at that time or later: a row is written a little earlier than it
        is committed.
        """
        if id_ in self.in_slot.ids:
            return True
        return at is not None and any(t is not None and at >= t for t in (self.waiting_since, self.still_since))


def relay_progress(
    wiring: Wiring, catalog: Catalog, view: View, patience: float, wait: Callable[[float], object]
) -> RelayProgress:
    """Asked after the rows were read in `view`, which may be closed by now."""
    of_parts = _published_from(wiring, catalog)
    slot = catalog.slot(wiring.slot)
    if slot is not None and (slot.wal_status == "lost" or slot.invalidation_reason):
        lost = f"slot {wiring.slot!r} is lost; `walrelay recover --dry-run` says what may not have been published"
        return RelayProgress(lost=lost, parts=of_parts)
    try:
        known = confirmed_rows(catalog, view, wiring.slot, patience, wait)
    except Denied:
        raise
    except Fatal as why:
        return RelayProgress(lost=f"{why}; `walrelay recover --dry-run` says what may not have been published")
    if known.everything:
        return RelayProgress(True, known.xmin, parts=of_parts)
    slot = catalog.slot(wiring.slot)
    if slot is None:
        return RelayProgress(lost=f"slot {wiring.slot!r} is gone")
    in_slot = waiting_in_slot(wiring, catalog, wait) if slot.active_pid is None else WaitingInSlot()
    since = in_slot.since if slot.active_pid is None else _waiting_since(wiring, catalog, slot)
    behind, still = _behind(wiring, catalog, slot), _still_since(catalog, slot)
    return RelayProgress(False, known.xmin, since, still, behind, "", in_slot, of_parts)


def _waiting_since(wiring: Wiring, catalog: Catalog, slot: Slot) -> int | None:
    """When the oldest event was committed that is not confirmed; now, where none waits; None if that is not known."""
    lag = lag_seconds(catalog, slot, wiring.publication, messages=wiring.outbox.prefix is not None)
    return None if lag is None else int(catalog.value(_NOW)) - int(lag * 1_000_000)


def _still_since(catalog: Catalog, slot: Slot) -> int | None:
    """A time at which the WAL had got to where the slot is now: what was committed later is behind it."""
    times = list[int | None]()
    if slot.active_pid is None and catalog.server_version >= 170000:
        times.append(catalog.value(_INACTIVE, slot.name))
    try:
        if relays_table_exists(catalog):
            times.append(catalog.value(_REPORTED, slot.name, str(slot.confirmed_flush_lsn)))
    except Denied:  # a role that may not read it
        pass
    return min((each for each in times if each is not None), default=None)


def _behind(wiring: Wiring, catalog: Catalog, slot: Slot) -> str:
    if slot.confirmed_flush_lsn is None:
        return f"slot {slot.name!r} does not say how far it is"
    end = catalog.current_lsn()
    distance = max(0, end - slot.confirmed_flush_lsn)
    who = "no relay reads the slot, which is" if slot.active_pid is None else "the relay is"
    if paused := _pause(wiring, catalog):
        who = f"the relay is paused {paused}; it is"
    return f"{who} {size(distance)} of WAL behind: at {slot.confirmed_flush_lsn}, and the server is at {end}"


def _pause(wiring: Wiring, catalog: Catalog) -> str:
    try:
        found = pauses(catalog, [wiring.slot]) if relays_table_exists(catalog) else {}
    except Denied:
        return ""
    return str(found[wiring.slot]) if wiring.slot in found else ""


def _published_from(wiring: Wiring, catalog: Catalog) -> dict[int, PublishedFrom]:
    """By the OID of each part of the table."""
    found = parts(catalog, wiring.table)
    try:
        horizon = cleanup_horizon(catalog, wiring.slot, wiring.table, wiring.publication)
    except Denied:
        raise
    except Fatal as why:
        nothing = PublishedFrom(why=f"{why}; {why.hint}")
        return {each.oid: nothing for each in found}
    return {each.oid: _of_part(each, horizon, horizon.own) for each in found}


def _of_part(part: Part, horizon: CleanupHorizon, own: SlotRecord) -> PublishedFrom:
    since: PublishedSince | NothingKnown = published_since(part, own.published_from or 0, own.parts)
    if isinstance(since, NothingKnown):
        return PublishedFrom(why=since.why)
    by_time = since.number and (since.time or horizon.came_round)
    return PublishedFrom(since.number, (since.time or own.made_at) if by_time else "")
