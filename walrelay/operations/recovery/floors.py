"""What is known of how far a lost slot's relay got: which transactions had ended before its last durable position."""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from walrelay.errors import Fatal
from walrelay.lsn import LSN
from walrelay.model import RelayPosition
from walrelay.postgres.catalog import Catalog, Slot
from walrelay.postgres.history import History
from walrelay.postgres.slot_records import first_xmin, recorded_value
from walrelay.table.published import ended_before


class KeptPosition(NamedTuple):
    """Where a relay keeps its own position ("the file ..."), and what reads it; None where none is kept yet."""

    where: str
    read: Callable[[], RelayPosition | None]


class Floor(NamedTuple):
    """Every transaction with an xid8 below `xmin` needs no recovery; `why`: how that is known."""

    xmin: int
    why: str


class Loss(NamedTuple):
    """What became of the slot. `kept`: its row of pg_replication_slots if it is still there."""

    what: str
    kept: Slot | None
    created_lsn: LSN | None


def loss(catalog: Catalog, slot: str, *, replace: bool) -> Loss:
    """Fatal where there is nothing to recover from, or somebody reads the slot. `replace`: also if it is in order."""
    found = catalog.slot(slot)
    if found is not None and found.active_pid is not None:
        raise Fatal(f"slot {slot!r} is in use by PID {found.active_pid}", hint="Stop the relay first, then recover.")
    made = _made(catalog, slot)
    if found is None:
        what = f"{slot} is gone" + (f" (it was made at {made[0]})" if made else "; walrelay never made it here")
        return Loss(what, None, made[1] if made else None)
    if found.wal_status == "lost" or found.invalidation_reason:
        return Loss(f"{slot} is lost ({found.invalidation_reason or 'wal_status lost'})", found, made and made[1])
    if not replace:
        raise Fatal(
            f"slot {slot!r} can be read: `walrelay run` goes on from {found.confirmed_flush_lsn}",
            hint="If events are missing all the same, because somebody else read the slot or made it anew:"
            " `walrelay recover --replace` makes it anew and publishes what may not have been published.",
        )
    return Loss(f"{slot} can be read, and is replaced", None, made and made[1])


def known_floors(
    catalog: Catalog, slot: str, lost: Loss, kept: Iterable[KeptPosition], history: History
) -> tuple[list[Floor], list[str]]:
    """What is known, the best first, and why some of what was found does not count."""
    found, remarks = list[Floor](), list[str]()
    for where, read in kept:
        position = read()
        if position is None:
            continue
        name = f"position {position.lsn} in {where}"
        if fault := history.fault(position) or ("it does not say which transactions" if not position.xmin else ""):
            remarks.append(f"{name} is of no use: {fault}")
        else:
            why = f"everything up to the {name} (transactions before {position.xmin} had ended by then)"
            found.append(Floor(position.xmin, why))
    found += _of_the_slot(catalog, lost, history)
    found += _of_its_beginning(catalog, slot, history)
    return sorted(found, key=lambda floor: -floor.xmin), remarks


def _of_the_slot(catalog: Catalog, lost: Loss, history: History) -> Iterator[Floor]:
    """An invalidated slot still says which transactions it did not need."""
    if lost.kept is not None and (xmin := ended_before(catalog, lost.kept, history.end)) is not None:
        where = f"the lost slot's position {lost.kept.confirmed_flush_lsn}"
        yield Floor(xmin, f"everything up to {where} (transactions before {xmin} had ended by then)")


def _of_its_beginning(catalog: Catalog, slot: str, history: History) -> Iterator[Floor]:
    """Not in a dump that was restored elsewhere, nor after pg_upgrade: the numbers are those of another system."""
    if xmin := first_xmin(catalog, slot, history.system.identifier):
        yield Floor(xmin, f"this slot began at transaction {xmin}; older rows were never its business")


def _made(catalog: Catalog, slot: str) -> tuple[str, LSN] | None:
    at = recorded_value(catalog, slot, "created_at")
    lsn = recorded_value(catalog, slot, "created_lsn")
    return (f"{at[:16].replace('T', ' ')}", LSN.parse(lsn)) if at and lsn else None
