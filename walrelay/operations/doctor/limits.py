"""Limits of the server that the relay runs into: walsenders, slots, timeouts, kept WAL."""

from collections.abc import Iterator

from walrelay.identifiers import identifier
from walrelay.model import Finding
from walrelay.operations.doctor.expected import Expected, ok, problem, size, warning
from walrelay.postgres.catalog import Catalog

_MORE = 10  # how many senders or slots a fix adds
_SHORT_TIMEOUT = 10_000  # milliseconds: below it a short pause of the network ends the stream
_LITTLE_WAL = 1024  # megabytes: a relay that is away for minutes on a busy server exceeds less
_SOON = 3600.0  # seconds: an outage that should not cost the slot
_SECONDS = {"ms": 0.001, "s": 1.0, "min": 60.0}


def free_senders(catalog: Catalog) -> int:
    return int(
        catalog.value("SELECT current_setting('max_wal_senders')::int - (SELECT count(*) FROM pg_stat_replication)")
    )


def senders(catalog: Catalog, expected: Expected) -> Iterator[Finding]:
    free, most = free_senders(catalog), int(catalog.value("SHOW max_wal_senders"))
    reader = catalog.slot(expected.slot)
    if free > 0:
        yield ok("walsenders", f"{free} of {most} free")
    elif reader is not None and reader.active_pid is not None:
        yield ok("walsenders", f"none of {most} free; one of them reads slot {expected.slot}")
    else:
        yield problem("walsenders", f"none of {most} is free", _raise("max_wal_senders", most))


def slots(catalog: Catalog, expected: Expected) -> Iterator[Finding]:
    names = catalog.rows("SELECT slot_name::text, active FROM pg_replication_slots ORDER BY slot_name")
    most = int(catalog.value("SHOW max_replication_slots"))
    if any(name == expected.slot for name, _ in names) or len(names) < most:
        yield ok("free slots", f"{len(names)} of {most} in use")
        return
    unread = ", ".join(name for name, active in names if not active)
    detail = f"none of {most} is free" + (f"; nobody reads {unread}" if unread else "")
    yield problem("free slots", detail, _raise("max_replication_slots", most))


def sender_timeout(catalog: Catalog, expected: Expected) -> Iterator[Finding]:
    """As the relay's own session has it: a role or the DSN's options may set it."""
    milliseconds, shown, role = catalog.rows(
        "SELECT setting::int8, current_setting(name), current_user::text FROM pg_settings"
        " WHERE name = 'wal_sender_timeout'"
    )[0]
    fix = f"ALTER ROLE {identifier(role)} SET wal_sender_timeout = '60s';"
    if milliseconds == 0:
        yield warning("wal_sender_timeout", "off: a relay whose network broke keeps the slot occupied for long", fix)
    elif milliseconds < _SHORT_TIMEOUT:
        yield warning("wal_sender_timeout", f"{shown}: a short pause of the network ends the stream", fix)
    else:
        yield ok("wal_sender_timeout", shown)


def kept_wal(catalog: Catalog, expected: Expected) -> Iterator[Finding]:
    """No limit fills the disk while the relay is away, a limit costs the slot, which can be recovered from."""
    megabytes = int(catalog.value("SELECT setting FROM pg_settings WHERE name = 'max_slot_wal_keep_size'"))
    if megabytes < 0:
        yield warning(
            "max_slot_wal_keep_size",
            "no limit: while no relay reads, WAL is kept until the disk is full and the database stops; with one, the"
            " slot is lost instead, and `walrelay recover` publishes from the table what it had not read",
            "ALTER SYSTEM SET max_slot_wal_keep_size = '50GB'; SELECT pg_reload_conf();  -- what the disk can spare",
        )
    elif megabytes < _LITTLE_WAL:
        yield warning(
            "max_slot_wal_keep_size",
            f"the slot is lost when no relay reads while {size(megabytes * 2**20)} of WAL are written",
            "ALTER SYSTEM SET max_slot_wal_keep_size = '10GB'; SELECT pg_reload_conf();",
        )
    else:
        yield ok("max_slot_wal_keep_size", f"{size(megabytes * 2**20)} of WAL are kept while no relay reads")


def idle_slots(catalog: Catalog, expected: Expected) -> Iterator[Finding]:
    """idle_replication_slot_timeout of PostgreSQL 18 invalidates a slot that nobody reads."""
    rows = catalog.rows(
        "SELECT setting::int8, unit, current_setting(name) FROM pg_settings"
        " WHERE name = 'idle_replication_slot_timeout'"
    )
    for setting, unit, shown in rows:
        if 0 < setting * _SECONDS[unit] < _SOON:
            yield warning(
                "idle_replication_slot_timeout",
                f"the slot is lost when no relay reads it for {shown}",
                "ALTER SYSTEM SET idle_replication_slot_timeout = '1d'; SELECT pg_reload_conf();",
            )


def _raise(setting: str, most: int) -> str:
    return f"ALTER SYSTEM SET {setting} = {most + _MORE};  -- then restart PostgreSQL"
