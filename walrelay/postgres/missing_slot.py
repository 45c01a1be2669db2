"""A slot that is not there: whether `walrelay init` made it, and whether this server is the one it was made on."""

from datetime import datetime
from typing import NamedTuple

from walrelay.errors import Fatal
from walrelay.model import System
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.failures import Denied, slot_missing


class Made(NamedTuple):
    """The record that init keeps of a slot, docs/decisions/0004."""

    at: datetime
    system_identifier: str

    def __str__(self) -> str:
        return f"it was made at {self.at:%Y-%m-%d %H:%M} and is gone"


def made(catalog: Catalog, slot: str) -> Made | None:
    """What init noted when it made a slot of that name; None if it did not, or if the role may not know."""
    try:
        if catalog.value("SELECT 1 FROM pg_tables WHERE schemaname = 'walrelay' AND tablename = 'slots'") is None:
            return None
        rows = catalog.rows("SELECT created_at, system_identifier FROM walrelay.slots WHERE slot_name = %s", slot)
    except Denied:
        return None
    return Made(*rows[0]) if rows else None


def missing(catalog: Catalog, slot: str, last: System | None = None) -> Fatal:
    """Why the slot may be missing, as far as this server can tell; `last`: where this process read it before.

    A standby that was promoted is the same system on a later timeline, and has no slot that was not synchronised.
    """
    here, record = catalog.system(), made(catalog, slot)
    error = slot_missing(slot, made=record is not None)
    told = [f"{error} on this server (system {here.identifier}, timeline {here.timeline})"]
    if record is not None:
        told.append(str(record))
    if last is not None and last.identifier == here.identifier and last.timeline != here.timeline:
        told.append(f"this relay read it on timeline {last.timeline}: a standby was promoted that did not have it")
    elif (known := last.identifier if last else record and record.system_identifier) not in (None, here.identifier):
        told.append(f"it was one of system {known}: this is another cluster")
    return Fatal("; ".join(told), hint=error.hint)
