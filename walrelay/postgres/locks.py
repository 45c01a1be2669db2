"""What excludes what: advisory locks of a database, held for as long as a connection lives.

The lead of a slot is for a process that reads the slot or puts another in its place: a relay, a backfill, a recovery, a
drop. The others keep two of a kind apart. docs/locks.md has the table.

A lock has a name, and its key is an int8 that is made of it; processes of earlier versions make the same:

    walrelay leader SLOT          the first 8 bytes of SHA-256: a relay has its key before it has an ordinary connection
    walrelay backfill of SLOT     hashtextextended(name, 0), and so are the next two
    walrelay replay NAME of SLOT
    walrelay cleanup of TABLE
    walrelay candidate SLOT       two int4, see walrelay.postgres.candidates; shared: they keep nobody away
    SLOT TOPIC KEY                hashtextextended(name, 7301), for one transaction: of one key of a topic
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from time import monotonic, sleep
from typing import NamedTuple

from walrelay.errors import Fatal, WalrelayError
from walrelay.postgres.catalog import Catalog

PROCESS_TEXT = (
    "format('PID %%s', pid) || coalesce(' (' || nullif(concat_ws(', ', nullif(application_name, ''),"
    " 'from ' || host(client_addr), to_char(backend_start, '\"since\" YYYY-MM-DD HH24:MI:SS')), '') || ')', '')"
)
"""SQL: the process of a row of pg_stat_activity, for people; `%%` for the driver."""

DEAD_LETTER_KEY_LOCK = (
    "SELECT pg_advisory_xact_lock(hashtextextended(concat_ws(' ', %s::text, %s::text, %s::bytea), 7301))"
)
"""SQL: the relay and a replay of the dead letters of slot, topic and key wait for each other."""

_PATIENCE = 2.0  # seconds, for a connection of a process that just ended


class Lock(NamedTuple):
    """`taken`: what it means that another process has it. `hint`: what to do then."""

    key: int
    taken: str
    hint: str


def lock_key(slot: str) -> int:
    """The key of the slot's lead: an int8, the same for every instance."""
    return int.from_bytes(sha256(f"walrelay leader {slot}".encode()).digest()[:8], signed=True)


def of_lock(key: int) -> str:
    """SQL: a condition on rows `l` of pg_locks, which shows an int8 key in two halves."""
    high, low = divmod(key % 2**64, 2**32)
    return (
        f"l.locktype = 'advisory' AND l.objsubid = 1 AND l.classid = {high} AND l.objid = {low}"
        " AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())"
    )


def unexpected_leader_query(slot: str) -> str:
    """SQL: PID, role and application of a session that holds the lead and is no relay; no row if there is none."""
    return (
        "SELECT l.pid, coalesce(a.usename::text, ''), coalesce(a.application_name, '')"
        " FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid"
        f" WHERE {of_lock(lock_key(slot))} AND l.granted"
        " AND NOT EXISTS (SELECT FROM pg_stat_replication r WHERE r.pid = l.pid)"
    )


def unexpected_leader(slot: str, pid: object, role: object, application: object) -> str:
    return (
        f"the lead of slot {slot!r} is held by PID {pid}, role {role!r}, application {application!r}, which is no"
        " relay: either a walrelay command is at work, or that session keeps every relay waiting"
    )


def terminate(pid: object) -> str:
    return f"SELECT pg_terminate_backend({pid});"


def lead_lock(slot: str, then: str) -> Lock:
    """For a process that reads the slot, or puts another in its place; `then`: what may be done when it is free."""
    return Lock(
        lock_key(slot),
        f"slot {slot!r} is read by a relay, or is being replaced",
        f"Stop every relay of the slot, then {then}. `walrelay status` shows who leads and who stands by.",
    )


def slot_lock(catalog: Catalog, slot: str) -> Lock:
    """For a process that makes the slot or its record: init, a backfill, a recovery, a drop."""
    return Lock(
        _key(catalog, f"walrelay backfill of {slot}"),  # as in earlier versions
        f"another process makes or drops slot {slot!r}, or publishes its rows from the table",
        "Wait for it, or end it; then run the command again: a backfill or recovery goes on where that one stopped.",
    )


def replay_lock(catalog: Catalog, slot: str, name: str) -> Lock:
    """For one replay: two at once would publish everything twice."""
    return Lock(
        _key(catalog, f"walrelay replay {name} of {slot}"),
        f"another process is at work on replay {name}",
        "Wait for it, or end it; then run the command again: it goes on where that one stopped.",
    )


def cleanup_lock(catalog: Catalog, table: str) -> Lock:
    return Lock(
        _key(catalog, f"walrelay cleanup of {table}"),
        f"another clean-up of {table} is under way",
        "A relay with `retention` in its settings cleans up by itself. Wait for it, or end it.",
    )


def hold(catalog: Catalog, lock: Lock, *, patience: float = _PATIENCE) -> None:
    """Takes the lock for as long as the connection lives; Fatal if another session has it for `patience` seconds."""
    deadline = monotonic() + patience
    while not catalog.value("SELECT pg_try_advisory_lock(%s::int8)", lock.key):
        if monotonic() > deadline:
            raise Fatal(
                f"{lock.taken}: {holder(catalog, lock) or 'that process has just ended; try again'}",
                hint=lock.hint,
                page="others",
            )
        sleep(0.05)


@contextmanager
def held(catalog: Catalog, lock: Lock) -> Iterator[None]:
    """`hold` inside the context, for a connection that serves for something else afterwards."""
    hold(catalog, lock)
    try:
        yield
    finally:
        with suppress(WalrelayError):  # a connection that is gone holds no lock
            catalog.rows("SELECT pg_advisory_unlock(%s::int8)", lock.key)


def holder(catalog: Catalog, lock: Lock) -> str:
    """The process that has it, for people; empty if none has."""
    holders = f"pg_locks l LEFT JOIN pg_stat_activity USING (pid) WHERE {of_lock(lock.key)} AND granted"
    rows = catalog.rows(f"SELECT {PROCESS_TEXT} FROM {holders} LIMIT %s", 1)
    return str(rows[0][0]) if rows else ""


def _key(catalog: Catalog, name: str) -> int:
    return int(catalog.value("SELECT pg_catalog.hashtextextended(%s::text, 0::int8)", name))
