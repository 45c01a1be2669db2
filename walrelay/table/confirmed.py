"""Rows that are confirmed by this relay.

A row has no LSN; its transaction is known by its number. What a snapshot shows was committed before the WAL position
that the server has afterwards, so it is confirmed once the slot's confirmed position is there.
"""

from collections.abc import Callable
from typing import NamedTuple

from walrelay.errors import Fatal
from walrelay.lsn import LSN
from walrelay.postgres.catalog import Catalog, Slot
from walrelay.postgres.slot_moves import refuse_gap
from walrelay.postgres.slot_records import missing_slot
from walrelay.postgres.snapshot import View
from walrelay.source.start import refuse_future

_LOOK = 0.05  # seconds between two looks

# Each transaction number leaves at least 8 bytes of WAL (a subtransaction's: 4 in the record of its assignment, 4 in
# that of the commit), so within so much WAL the 32 bits of a number cannot have wrapped around.
_WAL_OF_A_ROUND = 2**32 * 8


class ConfirmedRows(NamedTuple):
    """`everything` in the snapshot, or what transactions before `xmin` wrote; then `why`, for people."""

    everything: bool
    xmin: int
    why: str


def confirmed_rows(
    catalog: Catalog, view: View, slot: str, patience: float, wait: Callable[[float], object]
) -> ConfirmedRows:
    """Waits up to `patience` seconds for the relay to confirm the snapshot. Fatal if the slot does not say what is
    confirmed.
    """
    end = catalog.current_lsn()
    found, waited = _slot(catalog, slot), 0.0
    while not _is_at(found, end) and found.active_pid is not None and waited < patience:
        wait(_LOOK)
        waited += _LOOK
        found = _slot(catalog, slot)
    refuse_future(found, catalog.current_lsn())
    refuse_gap(catalog, found)
    if _is_at(found, end):
        return ConfirmedRows(True, view.xmin, "")
    xmin = ended_before(catalog, found, end)
    if xmin is None:
        raise Fatal(
            f"slot {slot!r} does not say what the relay has confirmed (its position is {found.confirmed_flush_lsn})",
            hint="`walrelay status` shows the slot; `walrelay recover --dry-run` what may not have been published.",
        )
    state = "no relay reads the slot" if found.active_pid is None else "the relay is behind"
    why = f"{state}: it has confirmed up to {found.confirmed_flush_lsn}, and the server is at {end}"
    return ConfirmedRows(False, min(xmin, view.xmin), why)


def ended_before(catalog: Catalog, slot: Slot, end: LSN) -> int | None:
    """The xid8 below which all transactions had ended before the slot's position. None if the slot does not say, or is
    so far behind the WAL's `end` that the 32 bits of a number may have wrapped around.
    """
    if slot.confirmed_flush_lsn is None or end - slot.confirmed_flush_lsn > _WAL_OF_A_ROUND:
        return None
    xmin = catalog.value(
        "SELECT n - ((n - catalog_xmin::text::int8) & 4294967295) FROM pg_replication_slots,"
        " (SELECT pg_snapshot_xmax(pg_current_snapshot())::text::int8 AS n) AS next"
        " WHERE slot_name = %s AND database = current_database()",
        slot.name,
    )
    return int(xmin) if xmin else None


def _slot(catalog: Catalog, name: str) -> Slot:
    found = catalog.slot(name)
    if found is None:
        raise missing_slot(catalog, name)
    return found


def _is_at(slot: Slot, end: LSN) -> bool:
    return slot.confirmed_flush_lsn is not None and slot.confirmed_flush_lsn >= end
