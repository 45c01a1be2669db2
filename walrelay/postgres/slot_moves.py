"""How far a relay got by its own report in walrelay.relays, and whether its slot was moved or made again since.

A lead takes the row before it reads. When it ends, it reports the position that it confirmed last, unless another lead
has the row by then. So a slot beyond that report was moved by something else. A report by another hand, or by a version
that knows nothing of this, has another time than the end that the row names, and then nothing is known. The row is of
this database, and is set back with it. A dump that was restored elsewhere has LSNs of another system, which the record
of the slot shows.
"""

from collections.abc import Callable
from typing import TypeVar

from walrelay.errors import Fatal, WalrelayError
from walrelay.lsn import LSN, ZERO
from walrelay.postgres.catalog import Catalog, Slot
from walrelay.postgres.failures import Denied
from walrelay.postgres.slot_records import MADE_HERE

T = TypeVar("T")

_TABLE = "walrelay.relays"
_PATIENCE = "1s"
_ENDED = "to_jsonb(r) ->> 'lead' IS NOT NULL AND to_jsonb(r) ->> 'ended_at' = to_jsonb(r) ->> 'updated_at'"
"""SQL: a table of an earlier version lacks columns."""
_POSITION = f"SELECT r.position::text FROM {_TABLE} r WHERE r.slot_name = %s AND {MADE_HERE}"


def reached(catalog: Catalog, slot: str, *, stopped: bool = False) -> LSN | None:
    """Up to where relays of the slot confirmed for certain; None if that is not known. `stopped`: only if the last one
    has ended and said so: then it is all that they confirmed.
    """
    if catalog.value(f"SELECT to_regclass('{_TABLE}')") is None:
        return None
    try:
        found = catalog.value(f"{_POSITION}{f' AND {_ENDED}' if stopped else ''}", slot)
    except Denied:
        return None
    return None if found is None else LSN.parse(found)


def gap(catalog: Catalog, slot: Slot) -> str:
    """What may have been lost because the slot is beyond the position at which its relay stopped; empty: nothing."""
    end, confirmed = reached(catalog, slot.name, stopped=True), slot.confirmed_flush_lsn or ZERO
    if end is None or confirmed <= end:
        return ""
    return (
        f"slot {slot.name!r} is at {confirmed}, but its relay had confirmed only {end} when it stopped: the slot was"
        " made again or moved by something else, and the events in between were not published by this relay"
    )


STOP_PREFIX = "walrelay.stop"
"""Of the logical message that fills the WAL up to the position that a relay reports last."""
_ROOM = 8192  # bytes of WAL for the report


def report_end(catalog: Catalog, slot: str) -> LSN | None:
    """Corrects the last report, and returns the position that it names, to be confirmed: behind the WAL of the report
    itself, and reached by the server. None where others write much just now. From PostgreSQL 17 on.
    """
    end = LSN(catalog.current_lsn() + _ROOM)
    catalog.run(f"UPDATE {_TABLE} SET position = %s::pg_lsn WHERE slot_name = %s", str(end), slot)
    if (left := end - catalog.current_lsn()) <= 0:
        return None
    catalog.rows("SELECT pg_logical_emit_message(false, %s, repeat('.', %s), flush => true)", STOP_PREFIX, left)
    return end


def at_once(catalog: Catalog, ask: Callable[[], T], unknown: T) -> T:
    """The answer, or `unknown` where the table cannot be read within a second: a relay runs whatever happens to it."""
    if catalog.value(f"SELECT to_regclass('{_TABLE}')") is None:
        return ask()
    catalog.run(f"SET lock_timeout = '{_PATIENCE}'")
    try:
        return ask()
    except WalrelayError:
        if catalog.connection.closed:
            raise
        return unknown
    finally:
        if not catalog.connection.closed:
            catalog.run("SET lock_timeout = 0")


def refuse_gap(catalog: Catalog, slot: Slot) -> None:
    if why := gap(catalog, slot):
        raise Fatal(
            why,
            hint="The rows in between are still in the outbox table: `walrelay recover --replace` publishes them."
            " `walrelay run --from-slot` accepts the slot's position instead.",
            page="slot-moved",
        )


def take_row(catalog: Catalog, slot: str, lead: str, *, reads: bool = True) -> None:
    """Gives the row to that lead, if it reports at all. If it `reads`, the row no longer says where an earlier
    one ended. A role that may not write there has reported nothing either. `lead`: empty for a slot that is made or
    moved now.
    """
    current = f"SELECT 1 FROM pg_attribute WHERE attrelid = to_regclass('{_TABLE}') AND attname = 'ended_at'"
    end = ", ended_at = NULL" if reads else ""
    query = f"UPDATE {_TABLE} SET lead = nullif(%s, ''){end} WHERE slot_name = %s"

    def take() -> None:
        with catalog.connection.transaction():
            catalog.run("SET LOCAL synchronous_commit = local")  # no standby is waited for
            catalog.run(query, lead, slot)

    if catalog.value(current) is not None:
        at_once(catalog, take, None)
