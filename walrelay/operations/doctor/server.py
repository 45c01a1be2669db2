"""The server: its version and WAL level, its limits, and whom it waits for."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from walrelay.identifiers import identifier
from walrelay.model import Finding
from walrelay.operations.doctor.expected import Expected, ok, problem, warning
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.dsn import application_name, without_password
from walrelay.postgres.sizes import size
from walrelay.wire.commands import literal

_OLDEST = 140000

# ALTER PUBLICATION while a transaction writes could lose that transaction's later rows; the first fix could end the
# decoding for lack of memory, and the second came with the minors of August 2025 (guarantees A20).
_MENDED = {14: 140019, 15: 150014, 16: 160010, 17: 170006}


def version(catalog: Catalog, expected: Expected) -> Iterator[Finding]:
    if catalog.server_version < _OLDEST:
        number = catalog.value("SHOW server_version")
        yield problem("server version", f"{number} is too old: walrelay needs 14 or later", "pg_upgrade --help")


def primary(catalog: Catalog, expected: Expected) -> Iterator[Finding]:
    """The relay needs the primary. A standby of PostgreSQL 16 could decode; walrelay does not use that yet."""
    if not catalog.in_recovery():
        yield ok("primary", "the server is not a standby")
        return
    sender = catalog.rows("SELECT sender_host, sender_port::text FROM pg_stat_wal_receiver WHERE sender_host <> ''")
    host, port = sender[0] if sender else ("the.primary", "5432")
    dsn = without_password(expected.dsn, host=host, port=port, target_session_attrs="read-write")
    yield problem("primary", "the server is a standby; the relay needs the primary", f"source.dsn: {dsn}")


def upstream_fixes(catalog: Catalog, expected: Expected) -> Iterator[Finding]:
    major = catalog.server_version // 10000
    mended = _MENDED.get(major, 0)
    if catalog.server_version < mended:
        yield warning(
            "minor version",
            f"before {major}.{mended % 10000} rows can get lost when a publication is altered while transactions write",
            f"apt-get install --only-upgrade postgresql-{major}",
        )


def wal_level(catalog: Catalog, expected: Expected) -> Iterator[Finding]:
    rows = catalog.rows(
        "SELECT name, setting, pending_restart FROM pg_settings WHERE name IN ('wal_level', 'effective_wal_level',"
        " 'rds.logical_replication', 'cloudsql.logical_decoding')"
    )
    level, pending = next((setting, pending) for name, setting, pending in rows if name == "wal_level")
    names = {name for name, _, _ in rows}
    if level == "logical":
        yield ok("wal_level", "logical")
    elif level == "replica" and "effective_wal_level" in names:
        yield ok("wal_level", "replica; this version raises it by itself when a logical slot is made")
    elif pending:
        yield problem("wal_level", f"still {level}: the new value waits for a restart", 'pg_ctl restart -D "$PGDATA"')
    else:
        yield problem("wal_level", f"{level}; a logical slot needs logical", _raise_wal_level(names))


def _raise_wal_level(settings: set[str]) -> str:
    """Managed services have their own switch for it."""
    if "rds.logical_replication" in settings:
        parameter = "ParameterName=rds.logical_replication,ParameterValue=1,ApplyMethod=pending-reboot"
        return (
            f"aws rds modify-db-parameter-group --parameters {parameter} --db-parameter-group-name ...   # then reboot"
        )
    if "cloudsql.logical_decoding" in settings:
        return "gcloud sql instances patch INSTANCE --database-flags=cloudsql.logical_decoding=on"
    return "ALTER SYSTEM SET wal_level = logical;  -- then restart PostgreSQL"


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
    reader = catalog.slot_of_any_database(expected.slot)
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
    """In the relay's own session: a role or the DSN's options may set it."""
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
    """While the relay is away, WAL without a limit fills the disk; with one the slot is lost, which can be
    recovered.
    """
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
    """idle_replication_slot_timeout of PostgreSQL 18 invalidates a slot that is not read."""
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


_SYNCHRONOUS = "synchronous_standby_names"


class Standbys(NamedTuple):
    """The parsed setting: commits wait for `needed` of `names`, for any of them or for the first ones present."""

    any: bool
    needed: int
    names: list[str]

    def place(self, application_name: str) -> int | None:
        """The name's index in the list, from 0; names are compared without case."""
        for place, name in enumerate(self.names):
            if name == "*" or name.lower() == application_name.lower():
                return place
        return None


def parse(setting: str) -> Standbys:
    """`ANY 1 (a, "b")`, `FIRST 2 (a, b)`, `2 (a, b)`, `a, b` or `*`."""
    match = re.fullmatch(r"\s*(?:(ANY|FIRST)?\s*(\d+)\s*\((.*)\)|(.*))\s*", setting, re.IGNORECASE | re.DOTALL)
    assert match is not None  # the last alternative matches anything
    kind, count, several, plain = match.groups()
    listed = several if several is not None else plain
    names = [name.replace('""', '"') or bare for name, bare in re.findall(r'"((?:[^"]|"")+)"|([^\s,"]+)', listed)]
    return Standbys((kind or "").upper() == "ANY", int(count or 1), names)


def standby_names(catalog: Catalog, expected: Expected) -> Iterator[Finding]:
    setting = catalog.value(f"SHOW {_SYNCHRONOUS}")
    name = application_name(expected.dsn)
    standbys = parse(setting)
    place = standbys.place(name)
    if place is None:
        yield ok(_SYNCHRONOUS, f"no commit waits for {name}")
    elif standbys.any or place < standbys.needed:
        detail = f"{setting!r} makes {name} a synchronous standby: commits would wait for the broker"
        yield problem(_SYNCHRONOUS, detail, _without(catalog, expected, standbys, name))
    else:
        detail = f"{setting!r} makes {name} a synchronous standby as soon as another one is away"
        yield problem(_SYNCHRONOUS, detail, _without(catalog, expected, standbys, name))


def _without(catalog: Catalog, expected: Expected, standbys: Standbys, name: str) -> str:
    """The setting without walrelay; `*` becomes the names of the connected standbys."""
    names = [each for each in standbys.names if each != "*" and each.lower() != name.lower()]
    if "*" in standbys.names:
        names += [each for each in _connected(catalog) if each not in names and each.lower() != name.lower()]
    quoted = ", ".join('"' + each.replace('"', '""') + '"' for each in names)
    kind, count = "ANY" if standbys.any else "FIRST", min(standbys.needed, len(names))
    value = f"{kind} {count} ({quoted})" if names else ""
    return f"ALTER SYSTEM SET {_SYNCHRONOUS} = {literal(value)}; SELECT pg_reload_conf();"


def _connected(catalog: Catalog) -> list[str]:
    """The names of the physical standbys: clients that do not read a logical slot."""
    return [
        name
        for (name,) in catalog.rows(
            "SELECT DISTINCT application_name FROM pg_stat_replication WHERE application_name <> '' AND pid NOT IN"
            " (SELECT active_pid FROM pg_replication_slots WHERE slot_type = 'logical' AND active_pid IS NOT NULL)"
            " ORDER BY 1"
        )
    ]
