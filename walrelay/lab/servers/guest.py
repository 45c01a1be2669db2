"""What a demo or benchmark makes in a database that may be the user's, by the code of `walrelay init`; all of it goes.

All objects have one name: a schema with a mark in its comment, a publication, a slot.
"""

import psycopg

from walrelay.errors import Fatal
from walrelay.lab.servers.backstage import waited
from walrelay.operations import setup
from walrelay.operations.drop import drop_all
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.failures import first_line
from walrelay.wiring import Wiring

_BOOKKEEPING = (
    "walrelay.slots",
    "walrelay.positions",
    "walrelay.dead_letters",
    "walrelay.replays",
    "walrelay.relays",
    "walrelay.activity",
    "walrelay.audit_log",
    "walrelay.jobs",
)
_FUNCTIONS = "DROP FUNCTION IF EXISTS walrelay.note_pause, walrelay.notify_pause"  # of walrelay.relays


def refuse_wrong_wal_level(catalog: Catalog, what: str) -> None:
    """`what`: the demo, the benchmark."""
    level = catalog.value("SHOW wal_level")
    if level != "logical":
        raise Fatal(
            f"the server's wal_level is {level}, and a logical slot needs logical",
            hint="ALTER SYSTEM SET wal_level = logical; then restart PostgreSQL. `walrelay doctor` finds what else"
            f" the server lacks; without --dsn {what} brings a PostgreSQL of its own.",
        )


def make(catalog: Catalog, wiring: Wiring, what: str, schema: str, *, with_emit: bool, patience: float) -> None:
    """Runs the SQL that makes the schema, then what `walrelay init` makes; `patience` in seconds, for the slot.

    `with_emit`: also walrelay.emit and its variants. A database of the user's may have them, for the user's outbox.
    """
    try:
        catalog.connection.execute(schema.encode())
    except psycopg.errors.InsufficientPrivilege as cause:
        raise Fatal(
            f"{what} may not make a schema of its own: {first_line(cause)}",
            hint="GRANT CREATE ON DATABASE ... TO ..., or give --dsn a role that may.",
        ) from cause
    steps = [step for step in setup.plan(catalog, wiring) if with_emit or step.kind != "function"]
    for _ in setup.apply(catalog, wiring, steps, patience=patience):
        pass


def remove(wiring: Wiring, schema: str, *, with_bookkeeping: bool) -> None:
    """Everything that was made; the schema walrelay only if it was not there before and is not used by now."""
    with Catalog(wiring.dsn) as catalog:
        until_let_go(catalog, wiring.slot)
        for _ in drop_all(catalog, wiring.slot, wiring.publication):
            pass
        if catalog.value("SELECT to_regnamespace(%s)::text", schema):
            catalog.connection.execute(f"DROP SCHEMA {schema} CASCADE".encode())
        if with_bookkeeping and _bookkeeping_is_empty(catalog):
            catalog.connection.execute(
                f"DROP TABLE IF EXISTS {', '.join(_BOOKKEEPING)}; {_FUNCTIONS}; DROP SCHEMA walrelay".encode()
            )


def has_bookkeeping(catalog: Catalog) -> bool:
    """Whether the database has the schema walrelay, which belongs to `walrelay init`."""
    return bool(catalog.value("SELECT to_regnamespace('walrelay') IS NOT NULL"))


def remove_leftovers(catalog: Catalog, wiring: Wiring, what: str, schema: str, mark: str) -> None:
    """Removes what a killed demo or benchmark left; Fatal for what none has made. `what`: demo, benchmark."""
    slot = catalog.slot(wiring.slot)
    if slot is not None and slot.database != catalog.value("SELECT current_database()"):
        raise Fatal(
            f"slot {slot.name!r} already exists, in database {slot.database}",
            hint=f"A {what} that was killed may have left it; the next {what} on that database removes it.",
        )
    if catalog.value("SELECT obj_description(to_regnamespace(%s), 'pg_namespace')", schema) == mark:
        remove(wiring, schema, with_bookkeeping=False)
    elif slot is not None or _is_taken(catalog, schema):
        raise Fatal(
            f"the database has a slot, a schema or a publication {schema} that no {what} made",
            hint=f"The {what} needs that name for itself: use another database, or drop them.",
        )


def until_let_go(catalog: Catalog, slot: str, patience: float = 5.0) -> None:
    """A walsender notices that its reader has left only a moment later."""
    waited(lambda: not (found := catalog.slot(slot)) or found.active_pid is None, patience)


def _bookkeeping_is_empty(catalog: Catalog) -> bool:
    there = [table for table in _BOOKKEEPING if catalog.value("SELECT to_regclass(%s) IS NOT NULL", table)]
    return bool(there) and not any(catalog.rows(f"SELECT 1 FROM {table} LIMIT 1") for table in there)


def _is_taken(catalog: Catalog, name: str) -> bool:
    query = "SELECT FROM pg_namespace WHERE nspname = %s UNION ALL SELECT FROM pg_publication WHERE pubname = %s"
    return bool(catalog.rows(query, name, name))
