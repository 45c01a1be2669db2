"""How far a relay got by its own report in walrelay.relays, and whether its slot was moved or made again since.

A relay that stops, or ends with an error, reports the position that it confirmed last, and the next one takes that back
before it reads. So a slot beyond the report of a relay that ended was moved by something else. The row is of this
database, and is set back with it. A dump that was restored elsewhere has LSNs of another system, which the record of
the slot shows.
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
_ENDED = "('stopped', 'failed')"
_POSITION = f"SELECT r.position::text FROM {_TABLE} r WHERE r.slot_name = %s AND {MADE_HERE}"


def reached(catalog: Catalog, slot: str, *, stopped: bool = False) -> LSN | None:
    """Up to where relays of the slot confirmed for certain; None if that is not known. `stopped`: only if the last one
    has ended and said so: then it is all that they confirmed.
    """
    if catalog.value(f"SELECT to_regclass('{_TABLE}')") is None:
        return None
    try:
        found = catalog.value(f"{_POSITION}{f' AND r.state IN {_ENDED}' if stopped else ''}", slot)
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


def take_back_the_stop(catalog: Catalog, slot: str) -> None:
    """From now on the report says nothing about where the relay stopped: it reads again, or the slot is another one. A
    role that may not write there has reported nothing either.
    """
    query = f"UPDATE {_TABLE} SET state = 'not started' WHERE slot_name = %s AND state IN {_ENDED}"
    if catalog.value(f"SELECT to_regclass('{_TABLE}')") is not None:
        at_once(catalog, lambda: catalog.run(query, slot), 0)
