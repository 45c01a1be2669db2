"""What `walrelay status` tells: where the slot stands and what it costs the server."""

import json
from typing import NamedTuple

from walrelay.errors import Fatal
from walrelay.lsn import LSN
from walrelay.source.catalog import Catalog
from walrelay.source.dead_letters.writing import waiting
from walrelay.source.leadership import lock_key
from walrelay.source.missing import missing
from walrelay.source.standbys import held_up_by


class Instance(NamedTuple):
    """A relay that leads or stands by: its walsender's PID, where it comes from and since when (ISO 8601)."""

    pid: int
    application_name: str
    client_address: str | None
    connected_at: str


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
    catalog_xmin_age: int | None  # transactions whose dead catalog rows the slot keeps from vacuum (PITFALLS A48)
    waits_for: str  # the standbys that must be ahead of a failover slot, and are not (PITFALLS A13)
    dead_letters: int | None  # those that wait or are blocked; None: there is no table for them
    leader: Instance | None
    standbys: list[Instance]  # whoever waits for the lead, in the order in which it will be theirs

    def as_json(self) -> str:
        """One object; instances are objects too."""
        members = self._asdict() | {"leader": self.leader and self.leader._asdict()}
        return json.dumps(members | {"standbys": [each._asdict() for each in self.standbys]})


def status(catalog: Catalog, slot_name: str) -> Status:
    """The slot's state now; Fatal if it is gone."""
    if catalog.in_recovery():
        raise Fatal("the server is a standby; the slot's state is told by the primary")
    slot = catalog.slot(slot_name)
    if slot is None:
        raise missing(catalog, slot_name)
    current = LSN.parse(catalog.value("SELECT pg_current_wal_lsn()::text"))
    lag_bytes = _distance(current, slot.confirmed_flush_lsn)
    retained = _distance(current, slot.restart_lsn)
    leaders, standbys = _instances(catalog, slot_name)
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
        catalog_xmin_age=catalog.value(
            "SELECT age(catalog_xmin) FROM pg_replication_slots WHERE slot_name = %s", slot_name
        ),
        waits_for=held_up_by(catalog, slot),
        dead_letters=waiting(catalog, slot_name),
        leader=next(iter(leaders), None),
        standbys=standbys,
    )


def _instances(catalog: Catalog, slot_name: str) -> tuple[list[Instance], list[Instance]]:
    """Who holds the lead of the slot, and who waits for it; pg_locks shows an int8 key in two halves."""
    key = lock_key(slot_name) % 2**64
    rows = catalog.rows(
        "SELECT granted, pid, coalesce(application_name, ''), host(client_addr), to_json(backend_start)#>>'{}'"
        " FROM pg_locks JOIN pg_stat_activity USING (pid) JOIN pg_database d ON d.oid = database"
        " WHERE locktype = 'advisory' AND objsubid = 1 AND classid = %s AND objid = %s"
        " AND d.datname = current_database() ORDER BY waitstart",
        *divmod(key, 2**32),
    )
    instances = [(granted, Instance(*rest)) for granted, *rest in rows]
    return [each for granted, each in instances if granted], [each for granted, each in instances if not granted]


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
