"""Failover slots: whether the slot is one, and whether a standby would have it, and have it in time (PITFALLS A13)."""

from collections.abc import Iterator

from walrelay.errors import Retryable
from walrelay.identifiers import identifier
from walrelay.model import Finding
from walrelay.operations.doctor.expected import Expected, ok, problem, warning
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.dsn import each_host
from walrelay.postgres.standbys import required_standby_slots
from walrelay.wire.commands import literal

_SUBJECT = "failover"
_RELOAD = "SELECT pg_reload_conf();"
_THERE = "-- on the standby"


def slot(catalog: Catalog, expected: Expected) -> Iterator[Finding]:
    """Whether the slot is synchronised to standbys as the settings want it."""
    if not expected.failover:
        return
    found = catalog.slot(expected.slot)
    if catalog.server_version < 170000:
        fix = "source.failover: false   # in the settings"
        detail = "source.failover needs PostgreSQL 17 or later: the slot does not survive a failover"
        yield warning(_SUBJECT, detail, fix)  # it can be read all the same; `walrelay init` makes none
    elif found is not None and found.failover:
        yield ok(_SUBJECT, f"{found.name} is synchronised to standbys that have sync_replication_slots")
    elif found is not None:
        command = f"ALTER_REPLICATION_SLOT {identifier(found.name)} (FAILOVER true)"
        fix = f'psql "dbname=postgres replication=database" -c {literal(command)}'
        yield warning(_SUBJECT, f"{found.name} was made without it, and does not survive a failover", fix)


def ahead(catalog: Catalog, expected: Expected) -> Iterator[Finding]:
    """Standbys must have what the relay publishes, and one that is named and away holds up every event."""
    if not _concerned(catalog, expected):
        return
    named, subject = required_standby_slots(catalog), "synchronized_standby_slots"
    for each in named:
        if each.fault:
            others = [other.name for other in named if other != each]
            detail = f"{each.name}: {each.fault}; no event is delivered until one is, and has all WAL"
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
    """What a standby needs to synchronise slots, as far as the primary sees it."""
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
                found = other.slot(expected.slot)
                where = f"the standby at {other.connection.info.host}:{other.connection.info.port}"
        except Retryable:
            continue  # a standby that is away is told of by what it holds up
        if found is not None and not found.temporary and not found.invalidation_reason:
            yield ok(_SUBJECT, f"{where} has {found.name}, and could take over")
        else:
            why = (found.invalidation_reason or "not ready") if found is not None else "not there"
            detail = f"{where} would not have {expected.slot} if it took over now: {why}"
            yield warning(_SUBJECT, detail, "SELECT pg_log_standby_snapshot();  -- then it takes up to half a minute")


def _concerned(catalog: Catalog, expected: Expected) -> bool:
    """A slot with failover waits for standbys whatever the settings say."""
    found = catalog.slot(expected.slot)
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
