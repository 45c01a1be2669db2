"""Why a slot that is there can never be read by a relay with these settings, and the way out. Pure: of values only.

Every command that reads a slot asks here, and the doctor too, so that they cannot disagree.
"""

from typing import NamedTuple

from walrelay.postgres.catalog import Slot
from walrelay.wire.commands import literal

_PLUGINS = ("pgoutput", "wal2json")


class Unreadable(NamedTuple):
    """`fix`: a line of the settings file, or SQL, to paste."""

    detail: str
    fix: str


def unreadable(slot: Slot, plugin: str, database: str, init: str = "walrelay init") -> Unreadable | None:
    """What of the slot waiting cannot cure; None where it suits. Whether it is lost is another question.

    `init`: the command that makes a slot, for these settings.
    """
    another = f"source.slot: {slot.name[:61]}_2   # in the settings; then {init}"
    if slot.plugin is None:
        return Unreadable(f"{slot.name} is a physical slot", another)
    if slot.database != database:
        return Unreadable(
            f"{slot.name} belongs to database {slot.database}, the DSN leads to {database}",
            f"{another} (or correct the database in source.dsn)",
        )
    if slot.plugin != plugin:
        named = f"source.plugin: {slot.plugin}   # in the settings"
        detail = f"{slot.name} was made for {slot.plugin}, the settings say {plugin}"
        return Unreadable(detail, named if slot.plugin in _PLUGINS else another)
    if slot.two_phase and slot.plugin == "pgoutput":
        return Unreadable(
            f"{slot.name} was made with two_phase: the first PREPARE TRANSACTION of the database, of whatever table,"
            " would stop the stream for good",
            without_two_phase(slot.name),
        )
    return None


def without_two_phase(slot: str) -> str:
    """A copy stands where the slot stands, and is without two_phase: it is made under another name and copied back."""
    name, copy = literal(slot), literal(f"{slot[:58]}_copy")
    return (
        f"SELECT pg_copy_logical_replication_slot({name}, {copy}); SELECT pg_drop_replication_slot({name});"
        f" SELECT pg_copy_logical_replication_slot({copy}, {name}); SELECT pg_drop_replication_slot({copy});"
    )
