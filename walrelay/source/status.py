"""What `walrelay status` tells: where the slot stands and what it costs the server."""

from typing import NamedTuple

from walrelay.errors import Fatal
from walrelay.lsn import LSN
from walrelay.source.catalog import Catalog
from walrelay.source.dead_letters.writing import waiting
from walrelay.source.failures import slot_missing


class Status(NamedTuple):
    """Positions are LSN texts, sizes bytes. `lag_seconds` is the server's measure of the time from sending to
    confirmation while a relay is connected; without one it is the time since the slot was last in use (PostgreSQL 17
    and later), and None where nobody knows.
    """

    slot: str
    plugin: str | None
    database: str | None
    active: bool
    active_pid: int | None
    wal_status: str | None
    current_lsn: str
    confirmed_lsn: str | None
    restart_lsn: str | None
    lag_bytes: int | None
    lag_seconds: float | None
    retained_wal_bytes: int | None
    safe_wal_bytes: int | None
    held_by: str  # what keeps restart_lsn back when the relay is not it (PITFALLS A4)
    dead_letters: int | None  # those that wait or are blocked; None: there is no table for them


def status(catalog: Catalog, slot_name: str) -> Status:
    """The slot's state now; Fatal if it is gone."""
    slot = catalog.slot(slot_name)
    if slot is None:
        raise slot_missing(slot_name)
    if catalog.in_recovery():
        raise Fatal("the server is a standby; the slot's state is told by the primary")
    current = LSN.parse(catalog.value("SELECT pg_current_wal_lsn()::text"))
    lag_bytes = _distance(current, slot.confirmed_flush_lsn)
    retained = _distance(current, slot.restart_lsn)
    return Status(
        slot=slot.name,
        plugin=slot.plugin,
        database=slot.database,
        active=slot.active_pid is not None,
        active_pid=slot.active_pid,
        wal_status=slot.wal_status,
        current_lsn=str(current),
        confirmed_lsn=str(slot.confirmed_flush_lsn) if slot.confirmed_flush_lsn is not None else None,
        restart_lsn=str(slot.restart_lsn) if slot.restart_lsn is not None else None,
        lag_bytes=lag_bytes,
        lag_seconds=0.0 if lag_bytes == 0 else _lag_seconds(catalog, slot_name),
        retained_wal_bytes=retained,
        safe_wal_bytes=slot.safe_wal_size,
        held_by=_oldest_writer(catalog) if (retained or 0) > 2 * (lag_bytes or 0) + 32 * 2**20 else "",
        dead_letters=waiting(catalog, slot_name),
    )


def _distance(end: LSN, start: LSN | None) -> int | None:
    return None if start is None else max(0, end - start)


def _lag_seconds(catalog: Catalog, slot_name: str) -> float | None:
    seconds = catalog.rows(
        "SELECT extract(epoch FROM coalesce(r.flush_lag, r.write_lag, interval '0'))::float8"
        " FROM pg_replication_slots s JOIN pg_stat_replication r ON r.pid = s.active_pid WHERE s.slot_name = %s",
        slot_name,
    )
    if seconds:
        return float(seconds[0][0])
    if catalog.server_version < 170000:
        return None
    idle = catalog.value(
        "SELECT extract(epoch FROM now() - inactive_since)::float8 FROM pg_replication_slots WHERE slot_name = %s",
        slot_name,
    )
    return None if idle is None else float(idle)


def _oldest_writer(catalog: Catalog) -> str:
    rows = catalog.rows(
        "SELECT pid, coalesce(application_name, ''), state, round(extract(epoch FROM now() - xact_start))"
        " FROM pg_stat_activity WHERE backend_xid IS NOT NULL AND pid <> pg_backend_pid() ORDER BY xact_start LIMIT 1"
    )
    if not rows:
        return ""
    pid, name, state, age = rows[0]
    return f"a running transaction: PID {pid} {name!r} {state}, open for {age} s"
