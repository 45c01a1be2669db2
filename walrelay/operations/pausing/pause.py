"""Pausing a relay and resuming it: by the table walrelay.relays, and without a process."""

from typing import NamedTuple

from walrelay.control.table import (
    TABLE,
    Pause,
    PauseRequest,
    begin_pause,
    end_pause,
    no_relays_table,
    relays_table_exists,
)
from walrelay.errors import Fatal
from walrelay.postgres.candidates import instances
from walrelay.postgres.catalog import Catalog, Slot
from walrelay.postgres.retained import SlotWal, slot_wal
from walrelay.postgres.rights import OWN, Right, missing_rights
from walrelay.postgres.role_checks import refuse_missing_rights
from walrelay.postgres.wal_pace import WalPace


class PauseCost(NamedTuple):
    """What a pause costs: bytes of WAL now, bytes that are written a minute at the present rate, and how much more may
    be written before the slot is lost (None: any amount). `led`: whether an instance leads the relay, to obey.
    """

    retained: int | None
    per_minute: int
    safe: int | None
    led: bool

    @property
    def hours_left(self) -> float | None:
        """Until the slot is lost, at the present rate; None: it is not lost by that."""
        return None if self.safe is None or not self.per_minute else self.safe / self.per_minute / 60


def pause(catalog: Catalog, slot: str, name: str, request: PauseRequest) -> Pause:
    """Pauses the relay; the pause as the table has it now."""
    refuse_missing(catalog, f"pause {name}")
    existing_slot(catalog, slot, name)
    if request.until and not catalog.value("SELECT %s::timestamptz > clock_timestamp()", request.until):
        raise Fatal(f"a pause until {request.until} is over already", hint="Give a time in the future.")
    begun = begin_pause(catalog, slot, name, request)
    assert begun is not None
    return begun


def pause_cost(catalog: Catalog, slot: str, name: str, pace: WalPace) -> PauseCost:
    """What a pause costs, whether the relay is paused or not."""
    existing_slot(catalog, slot, name)
    per_minute = pace.per_minute(catalog)
    wal = slot_wal(catalog, [slot]).get(slot, SlotWal(False, None, None, None, None, None))
    return PauseCost(wal.retained, per_minute, wal.safe, is_led(catalog, slot))


def resume(catalog: Catalog, slot: str, name: str) -> bool:
    """False if it was not paused."""
    refuse_missing(catalog, f"resume {name}")
    catalog.slot(slot)  # Fatal for one of another database
    return end_pause(catalog, slot)


def is_led(catalog: Catalog, slot: str) -> bool:
    """Whether an instance leads the slot's relay."""
    there = instances(catalog, [slot]).get(slot)
    return there is not None and there.led


def existing_slot(catalog: Catalog, slot: str, name: str) -> Slot:
    found = catalog.slot(slot)
    if found is None:
        raise Fatal(f"slot {slot!r} of relay {name!r} does not exist", hint="Run `walrelay doctor`.")
    return found


def refuse_missing(catalog: Catalog, task: str) -> None:
    """Fatal without the table, or without the rights on it that the task needs."""
    if not relays_table_exists(catalog):
        raise no_relays_table()
    table = TABLE.partition(".")[2]
    needed = [Right(each, OWN, table) for each in ("SELECT", "INSERT", "UPDATE")]
    refuse_missing_rights(catalog, missing_rights(catalog.connection, [Right("USAGE", OWN), *needed]), task)
