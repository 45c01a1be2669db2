"""The slot: who reads it, what WAL it retains, and whether it survives a failover."""

from collections.abc import Iterator

from walrelay.errors import Retryable
from walrelay.identifiers import identifier
from walrelay.model import Finding
from walrelay.operations.doctor import table
from walrelay.operations.doctor.expected import Expected, ok, problem, warning
from walrelay.operations.doctor.writers import init_command
from walrelay.postgres.catalog import Catalog, Slot
from walrelay.postgres.dsn import application_name, each_host
from walrelay.postgres.locks import terminate, unexpected_leader, unexpected_leader_query
from walrelay.postgres.sizes import size
from walrelay.postgres.slot_moves import gap
from walrelay.postgres.slot_records import slot_origin
from walrelay.postgres.standbys import required_standby_slots
from walrelay.source.slot_source import unreadable_slot
from walrelay.wire.commands import literal

_SUBJECT = "slot"
_NEAR_THE_LIMIT = 0.2  # the share of max_slot_wal_keep_size that is left


def exists(catalog: Catalog, expected: Expected) -> Iterator[Finding]:
    if catalog.slot_of_any_database(expected.slot) is not None:
        return
    if record := slot_origin(catalog, expected.slot):
        yield problem(
            _SUBJECT,
            f"{expected.slot} was made at {record.at:%Y-%m-%d %H:%M} and is gone: events committed since were"
            " not published, and are still in the table; this publishes them and makes the slot again, and asks before",
            expected.walrelay("recover"),
        )
        return
    outbox = table.look(catalog, expected)
    fix = init_command(catalog, expected, owner_of=outbox.oid if outbox else None)
    yield problem(_SUBJECT, f"{expected.slot} does not exist", fix)


def readable(catalog: Catalog, expected: Expected) -> Iterator[Finding]:
    """Faults that waiting does not cure."""
    slot = catalog.slot_of_any_database(expected.slot)
    assert slot is not None  # asked before
    if why := unreadable_slot(slot, expected.plugin, catalog.database, expected.walrelay("init")):
        yield problem(_SUBJECT, *why)
    elif slot.wal_status == "lost" or slot.invalidation_reason:
        reason = slot.invalidation_reason or "wal_status is lost"
        yield problem(
            _SUBJECT,
            f"{slot.name} can no longer be read ({reason}): events committed after {slot.confirmed_flush_lsn} were not"
            " published, and are still in the table; this publishes them and makes the slot again, and asks before",
            expected.walrelay("recover"),
        )


def moved(catalog: Catalog, expected: Expected) -> Iterator[Finding]:
    """Whether something else moved the slot since its relay stopped."""
    slot = catalog.slot_of_any_database(expected.slot)
    if slot is not None and (why := gap(catalog, slot)):
        yield problem(_SUBJECT, why, expected.walrelay("recover --replace"))


def lead(catalog: Catalog, expected: Expected) -> Iterator[Finding]:
    """Any role can take the advisory lock that a relay leads by."""
    for pid, role, application in catalog.rows(unexpected_leader_query(expected.slot)):
        yield warning("lead", unexpected_leader(expected.slot, pid, role, application), terminate(pid))


def reader(catalog: Catalog, expected: Expected) -> Iterator[Finding]:
    slot = catalog.slot_of_any_database(expected.slot)
    assert slot is not None  # asked before
    if slot.active_pid is None:
        yield ok(_SUBJECT, f"{slot.name} is there, and free")
        return
    name = catalog.value("SELECT application_name FROM pg_stat_activity WHERE pid = %s", slot.active_pid) or ""
    if name == application_name(expected.dsn):
        yield ok(_SUBJECT, f"{slot.name} is read by PID {slot.active_pid} ({name})")
    else:
        detail = f"{slot.name} is read by PID {slot.active_pid} ({name or 'without a name'}), which is not walrelay"
        yield problem(_SUBJECT, detail, f"SELECT pg_terminate_backend({slot.active_pid});  -- or another source.slot")


def retained(catalog: Catalog, expected: Expected) -> Iterator[Finding]:
    """How much WAL the slot retains, and how close it is to being lost."""
    slot = catalog.slot_of_any_database(expected.slot)
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


_FAILOVER = "failover"
_RELOAD = "SELECT pg_reload_conf();"
_THERE = "-- on the standby"


def failover_slot(catalog: Catalog, expected: Expected) -> Iterator[Finding]:
    """Whether the slot is synchronised to standbys, if the settings ask for that."""
    if not expected.failover:
        return
    found = catalog.slot_of_any_database(expected.slot)
    if catalog.server_version < 170000:
        fix = "source.failover: false   # in the settings"
        detail = "source.failover needs PostgreSQL 17 or later: the slot does not survive a failover"
        yield warning(_FAILOVER, detail, fix)  # it can be read all the same; `walrelay init` makes none
    elif found is not None and found.failover:
        yield ok(_FAILOVER, f"{found.name} is synchronised to standbys that have sync_replication_slots")
    elif found is not None:
        command = f"ALTER_REPLICATION_SLOT {identifier(found.name)} (FAILOVER true)"
        fix = f'psql "dbname=postgres replication=database" -c {literal(command)}'
        yield warning(_FAILOVER, f"{found.name} was made without it, and does not survive a failover", fix)


def ahead(catalog: Catalog, expected: Expected) -> Iterator[Finding]:
    """Whether the standbys that the stream waits for are there: one that is named and away holds up every event."""
    if not _concerned(catalog, expected):
        return
    named, subject = required_standby_slots(catalog), "synchronized_standby_slots"
    for each in named:
        if each.fault:
            others = [other.name for other in named if other != each]
            detail = f"{each.name}: {each.fault}; no event is delivered until a standby is connected and has all WAL"
            yield problem(subject, detail, f"{_set(subject, others)}  -- or start the standby again")
    if not named:
        detail = "empty: the relay may publish what a standby does not have when it is promoted"
        streaming = [name for name, _ in _streaming(catalog)]
        name = (
            "SELECT pg_create_physical_replication_slot('standby_1', true);  -- then primary_slot_name on the standby"
        )
        yield warning(subject, detail, _set(subject, streaming) if streaming else name)
    elif not any(each.fault for each in named):
        yield ok(subject, ", ".join(each.name for each in named))


def standbys(catalog: Catalog, expected: Expected) -> Iterator[Finding]:
    """What a standby needs to synchronise slots, as far as the primary can see it."""
    if not _concerned(catalog, expected):
        return
    silent = [name for name, feedback in _streaming(catalog) if not feedback]
    if silent:
        detail = f"off on the standby of {', '.join(silent)}: it synchronises no slots, or loses them to conflicts"
        yield warning("hot_standby_feedback", detail, f"{_set('hot_standby_feedback', ['on'])}  {_THERE}")
    # The worker is an ordinary session, whose name begins with the standby's cluster_name.
    if not catalog.value("SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE '%slotsync worker'"):
        yield warning(
            "sync_replication_slots",
            "no standby synchronises slots from this server: after a failover there is none",
            f"{_set('sync_replication_slots', ['on'])}"
            f"  {_THERE}, which also needs hot_standby_feedback, primary_slot_name and a dbname in primary_conninfo",
        )


def synchronised(catalog: Catalog, expected: Expected) -> Iterator[Finding]:
    """Whether each standby that the DSN names would have the slot if it were promoted now."""
    if not _concerned(catalog, expected):
        return
    for dsn in each_host(expected.dsn):
        try:
            with Catalog(dsn) as other:
                if not other.in_recovery():
                    continue
                found = other.slot_of_any_database(expected.slot)
                where = f"the standby at {other.connection.info.host}:{other.connection.info.port}"
        except Retryable:
            continue  # for a standby that is away there is another finding
        if found is not None and not found.temporary and not found.invalidation_reason:
            yield ok(_FAILOVER, f"{where} has {found.name}, and could take over")
        else:
            why = (found.invalidation_reason or "not ready") if found is not None else "not there"
            detail = f"{where} would not have {expected.slot} if it took over now: {why}"
            yield warning(_FAILOVER, detail, "SELECT pg_log_standby_snapshot();  -- then it takes up to half a minute")


def _concerned(catalog: Catalog, expected: Expected) -> bool:
    """A slot with failover waits for standbys, regardless of the settings."""
    found = catalog.slot_of_any_database(expected.slot)
    return catalog.server_version >= 170000 and (expected.failover or (found is not None and found.failover))


def _streaming(catalog: Catalog) -> list[tuple[str, bool]]:
    """The physical slots with a standby connected, each with whether it sends feedback."""
    return [
        (name, feedback)
        for name, feedback in catalog.rows(
            "SELECT slot_name::text, xmin IS NOT NULL OR catalog_xmin IS NOT NULL FROM pg_replication_slots"
            " WHERE slot_type = 'physical' AND active_pid IS NOT NULL ORDER BY slot_name"
        )
    ]


def _set(setting: str, values: list[str]) -> str:
    return f"ALTER SYSTEM SET {setting} = {', '.join(map(literal, values)) or literal('')}; {_RELOAD}"
