"""How far slots are behind the WAL, and how much of it they retain: one statement for all slots of a database."""

from collections.abc import Sequence
from typing import NamedTuple

from walrelay.postgres.catalog import Catalog


class SlotWal(NamedTuple):
    """Of one slot; None where the server does not say. `lag` and `retained` in bytes; `safe`: how much more WAL may be
    written before the slot is lost.
    """

    active: bool
    wal_status: str | None
    confirmed: str | None
    lag: int | None
    retained: int | None
    safe: int | None


_SLOTS = (
    "SELECT slot_name::text, active_pid IS NOT NULL, wal_status, confirmed_flush_lsn::text,"
    " pg_wal_lsn_diff(here.lsn, confirmed_flush_lsn)::int8, pg_wal_lsn_diff(here.lsn, restart_lsn)::int8, safe_wal_size"
    " FROM pg_replication_slots,"
    " LATERAL (SELECT CASE WHEN NOT pg_is_in_recovery() THEN pg_current_wal_lsn() END AS lsn) AS here"
    " WHERE slot_name = ANY (%s) AND database = current_database()"
)


def slot_wal(catalog: Catalog, slots: Sequence[str]) -> dict[str, SlotWal]:
    """By slot; one that is not there, or belongs to another database, is left out."""
    return {
        name: SlotWal(active, wal_status, confirmed, _positive(lag), _positive(retained), safe)
        for name, active, wal_status, confirmed, lag, retained, safe in catalog.rows(_SLOTS, [*slots])
    }


def _positive(distance: int | None) -> int | None:
    return None if distance is None else max(0, distance)
