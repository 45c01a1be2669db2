"""The slot: there, made for this database and plugin, still good, and free to be read."""

from collections.abc import Iterator

from walrelay.model import Finding
from walrelay.operations.doctor import table
from walrelay.operations.doctor.expected import Expected, ok, problem, size, warning
from walrelay.operations.doctor.made_by_init import init_command
from walrelay.postgres.catalog import Catalog, Slot
from walrelay.postgres.dsn import application_name
from walrelay.postgres.locks import terminate, unexpected_leader, unexpected_leader_query
from walrelay.postgres.slot_records import slot_origin
from walrelay.source.slot_source import unreadable_slot

_SUBJECT = "slot"
_NEAR_THE_LIMIT = 0.2  # the part of max_slot_wal_keep_size that is left


def exists(catalog: Catalog, expected: Expected) -> Iterator[Finding]:
    if catalog.slot(expected.slot) is not None:
        return
    if record := slot_origin(catalog, expected.slot):
        yield problem(
            _SUBJECT,
            f"{expected.slot} was made at {record.at:%Y-%m-%d %H:%M} and is gone: events committed since were"
            " not published, and are still in the table; this publishes them and makes the slot anew, and asks before",
            expected.walrelay("recover"),
        )
        return
    outbox = table.look(catalog, expected)
    fix = init_command(catalog, expected, owner_of=outbox.oid if outbox else None)
    yield problem(_SUBJECT, f"{expected.slot} does not exist", fix)


def readable(catalog: Catalog, expected: Expected) -> Iterator[Finding]:
    """What can never become right by waiting."""
    slot = catalog.slot(expected.slot)
    assert slot is not None  # asked before
    database = str(catalog.value("SELECT current_database()::text"))
    if why := unreadable_slot(slot, expected.plugin, database, expected.walrelay("init")):
        yield problem(_SUBJECT, *why)
    elif slot.wal_status == "lost" or slot.invalidation_reason:
        reason = slot.invalidation_reason or "wal_status is lost"
        yield problem(
            _SUBJECT,
            f"{slot.name} can no longer be read ({reason}): events committed after {slot.confirmed_flush_lsn} were not"
            " published, and are still in the table; this publishes them and makes the slot anew, and asks before",
            expected.walrelay("recover"),
        )


def lead(catalog: Catalog, expected: Expected) -> Iterator[Finding]:
    """Any role can take the advisory lock that a relay leads by."""
    for pid, role, application in catalog.rows(unexpected_leader_query(expected.slot)):
        yield warning("lead", unexpected_leader(expected.slot, pid, role, application), terminate(pid))


def reader(catalog: Catalog, expected: Expected) -> Iterator[Finding]:
    slot = catalog.slot(expected.slot)
    assert slot is not None  # asked before
    if slot.active_pid is None:
        yield ok(_SUBJECT, f"{slot.name} is there, and free")
        return
    name = catalog.value("SELECT application_name FROM pg_stat_activity WHERE pid = %s", slot.active_pid) or ""
    if name == application_name(expected.dsn):
        yield ok(_SUBJECT, f"{slot.name} is read by PID {slot.active_pid} ({name})")
    else:
        detail = f"{slot.name} is read by PID {slot.active_pid} ({name or 'without a name'}), which is no walrelay"
        yield problem(_SUBJECT, detail, f"SELECT pg_terminate_backend({slot.active_pid});  -- or another source.slot")


def retained(catalog: Catalog, expected: Expected) -> Iterator[Finding]:
    """What the slot costs the server's disk, and how near it is to its loss."""
    slot = catalog.slot(expected.slot)
    if slot is None or slot.restart_lsn is None or slot.wal_status == "lost":
        return
    kept = int(catalog.value("SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), %s::pg_lsn)", str(slot.restart_lsn)))
    if slot.wal_status == "reserved" and not _near_its_limit(catalog, slot):
        yield ok("retained WAL", size(max(kept, 0)))
        return
    if slot.wal_status == "extended":
        left = f", {size(slot.safe_wal_size)} more and it is lost" if slot.safe_wal_size is not None else ""
        detail = f"the slot holds back {size(kept)} of WAL, more than max_wal_size{left}"
    else:
        detail = f"the slot holds back {size(kept)} of WAL and is lost soon (wal_status {slot.wal_status})"
    grow = "ALTER SYSTEM SET max_slot_wal_keep_size = -1; SELECT pg_reload_conf();  -- until the relay caught up"
    near = slot.wal_status != "extended" or _near_its_limit(catalog, slot)  # without a limit it stays "extended"
    yield warning("retained WAL", detail, grow if near else expected.walrelay("run"))


def _near_its_limit(catalog: Catalog, slot: Slot) -> bool:
    limit = int(catalog.value("SELECT setting FROM pg_settings WHERE name = 'max_slot_wal_keep_size'")) * 2**20
    return slot.safe_wal_size is not None and slot.safe_wal_size < limit * _NEAR_THE_LIMIT
