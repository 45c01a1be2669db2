"""A relay's own position: where it is kept, for runs, for a recovery, and for a new slot."""

from time import monotonic

from walrelay.errors import Fatal, Retryable
from walrelay.model import RelayPosition, System
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.history import server_history
from walrelay.source.contract import Positions
from walrelay.source.positions import FilePositions, TablePositions
from walrelay.wiring.wiring import Wiring

_PATIENCE = 10.0  # seconds


def positions(wiring: Wiring, catalog: Catalog, system: System, reader: int | None = None) -> Positions | None:
    """Where it is kept; None with the slot's position alone. `reader`: the walsender of the relay that keeps it there:
    no other process may.
    """
    match wiring.position.place:
        case "file":
            return FilePositions(wiring.position.path, wiring.slot)
        case "table":
            return TablePositions(catalog, wiring.slot, reader)
        case "topic":
            return wiring.sink.open_positions(system, wiring.slot)
    return None


def begin_at(wiring: Wiring, catalog: Catalog, *, xmin: int = 0) -> None:
    """Stores the position of a slot that was just made. The one that is kept is an earlier slot's: this slot would seem
    to have been moved. `xmin`: as in Position.
    """
    system, slot = catalog.system(), catalog.slot(wiring.slot)
    kept = positions(wiring, catalog, system)
    if kept is None or slot is None or slot.confirmed_flush_lsn is None or not _is_ours(kept, system):
        return
    here = server_history(wiring.dsn, catalog).system  # includes where its timeline began
    wanted = RelayPosition(here, slot.name, slot.confirmed_flush_lsn, xmin=xmin)
    deadline = monotonic() + _PATIENCE
    while kept.keep(wanted) < wanted.lsn:
        if monotonic() > deadline:
            raise Retryable(f"the relay's own position was not taken by the {wiring.position.place} in {_PATIENCE:g} s")


def _is_ours(kept: Positions, system: System) -> bool:
    """A position of another server, or an unreadable one, stays: the relay refuses it, and says what to do."""
    try:
        before = kept.last()
    except Fatal:
        return False
    return before is None or before.system.identifier == system.identifier
