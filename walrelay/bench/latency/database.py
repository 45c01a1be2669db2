"""The benchmark's objects in the database: made by the code of `walrelay init`, with names of its own."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from walrelay import compose
from walrelay.bench.names import BUSINESS, CHANNEL, ROLE, SCHEMA, TABLE
from walrelay.config import Settings
from walrelay.errors import Fatal
from walrelay.source import connect, setup
from walrelay.source.catalog import Catalog
from walrelay.source.ddl import script
from walrelay.source.failures import first_line

_PATIENCE = 60.0  # seconds; a slow disk takes some for a checkpoint

_MARK = "Made by walrelay bench, which also removes it."

# walrelay's own outbox, and what a polling worker needs beside: an order, and a small index of what is unpublished.
TABLES = f"""
CREATE SCHEMA {SCHEMA};
COMMENT ON SCHEMA {SCHEMA} IS '{_MARK}';
CREATE TABLE {BUSINESS} (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, customer text NOT NULL, total numeric NOT NULL
);
{script("outbox", table=TABLE)}
ALTER TABLE {TABLE} ADD COLUMN number bigint GENERATED ALWAYS AS IDENTITY, ADD COLUMN published_at timestamptz;
CREATE INDEX ON {TABLE} (number) WHERE published_at IS NULL;
CREATE FUNCTION {SCHEMA}.ring() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NOTIFY {CHANNEL}; RETURN NULL; END';
"""

# What walrelay and a polling worker need, and no more; they differ from the writer so that they can be told apart.
_ROLE = f"""
CREATE ROLE {ROLE} LOGIN REPLICATION;
GRANT USAGE ON SCHEMA {SCHEMA}, walrelay TO {ROLE};
GRANT SELECT, UPDATE ON {TABLE} TO {ROLE};
"""

_BELL = f"CREATE TRIGGER ring AFTER INSERT ON {TABLE} FOR EACH STATEMENT EXECUTE FUNCTION {SCHEMA}.ring()"

_TAKEN = f"""
SELECT FROM pg_namespace WHERE nspname = '{SCHEMA}' UNION ALL
SELECT FROM pg_publication WHERE pubname = '{SCHEMA}'
"""


@contextmanager
def prepared(settings: Settings, *, embedded: bool) -> Iterator[Catalog]:
    """Schema, tables, publication and slot, and on a server of its own a role for the workers.

    Yields a connection for questions. Everything goes afterwards; an embedded server goes as a whole.
    """
    with Catalog(compose.dsn(settings)) as catalog:
        connect.limit(catalog.connection, _PATIENCE)
        _refuse_wrong_wal_level(catalog)
        _be_the_only_one(catalog)
        _remove_leftovers(catalog, settings)
        with_schema = catalog.value("SELECT to_regnamespace('walrelay') IS NULL")
        try:
            _make(catalog, settings)
            if embedded:
                catalog.connection.execute(_ROLE.encode())
            yield catalog
        finally:
            if not embedded:
                _remove(settings, with_schema=with_schema)


def renew(catalog: Catalog, slot: str, *, embedded: bool) -> None:
    """Each segment finds empty tables, nothing that waits in the slot, and pages that were not written lately.

    The first change of a page after a checkpoint writes all of it to the WAL: without a checkpoint here, a few of
    the strategies would pay that. On the user's server there is none, so these may.
    """
    catalog.connection.execute(f"TRUNCATE {TABLE}, {BUSINESS}".encode())
    if embedded:
        catalog.connection.execute("CHECKPOINT")
    _until_let_go(catalog, slot)
    catalog.rows("SELECT pg_replication_slot_advance(%s, pg_current_wal_insert_lsn())", slot)


def all_published(catalog: Catalog) -> bool:
    """Whether a poller has marked everything."""
    return not catalog.rows(f"SELECT FROM {TABLE} WHERE published_at IS NULL LIMIT 1")


@contextmanager
def bell(catalog: Catalog) -> Iterator[None]:
    """While this is entered, every insert notifies whoever listens."""
    catalog.connection.execute(_BELL.encode())
    try:
        yield
    finally:
        catalog.connection.execute(f"DROP TRIGGER ring ON {TABLE}".encode())


def _make(catalog: Catalog, settings: Settings) -> None:
    try:
        catalog.connection.execute(TABLES.encode())
    except psycopg.errors.InsufficientPrivilege as cause:
        raise Fatal(
            f"the benchmark may not make a schema of its own: {first_line(cause)}",
            hint="GRANT CREATE ON DATABASE ... TO ..., or give --dsn a role that may.",
        ) from cause
    wanted = compose.wanted(settings)
    steps = [step for step in setup.plan(catalog, wanted) if step.what != "function walrelay.emit"]
    for _ in setup.apply(catalog, wanted, steps, patience=_PATIENCE):
        pass


def _remove(settings: Settings, *, with_schema: bool) -> None:
    """Everything that was made; the schema walrelay only if it was not there before and is not used by now."""
    with Catalog(compose.dsn(settings)) as catalog:
        _until_let_go(catalog, settings.source.slot)
        for _ in setup.drop(catalog, settings.source.slot, compose.publication(settings)):
            pass
        if catalog.value("SELECT to_regnamespace(%s)::text", SCHEMA):
            catalog.connection.execute(f"DROP SCHEMA {SCHEMA} CASCADE".encode())
        if with_schema and _bookkeeping_is_empty(catalog):
            catalog.connection.execute("DROP TABLE walrelay.slots; DROP SCHEMA walrelay")


def _bookkeeping_is_empty(catalog: Catalog) -> bool:
    there = catalog.value("SELECT to_regclass('walrelay.slots') IS NOT NULL")
    return bool(there) and not catalog.rows("SELECT slot_name FROM walrelay.slots")


def _refuse_wrong_wal_level(catalog: Catalog) -> None:
    level = catalog.value("SHOW wal_level")
    if level != "logical":
        raise Fatal(
            f"the server's wal_level is {level}, and a logical slot needs logical",
            hint="ALTER SYSTEM SET wal_level = logical; then restart PostgreSQL. Without --dsn the benchmark brings a"
            " PostgreSQL of its own.",
        )


def _be_the_only_one(catalog: Catalog) -> None:
    """A lock of this session; a benchmark that was killed has none any more."""
    if not catalog.value("SELECT pg_try_advisory_lock(hashtext(%s))", SCHEMA):
        raise Fatal("another benchmark is running on this database", hint="Wait until it has ended.")


def _remove_leftovers(catalog: Catalog, settings: Settings) -> None:
    """Those of a benchmark that was killed; Fatal for what is not a benchmark's."""
    slot = catalog.slot(settings.source.slot)
    if slot is not None and slot.database != catalog.value("SELECT current_database()"):
        raise Fatal(
            f"slot {slot.name!r} is there already, of database {slot.database}",
            hint="If a benchmark was killed there, the next one on that database removes it.",
        )
    if catalog.value("SELECT obj_description(to_regnamespace(%s), 'pg_namespace')", SCHEMA) == _MARK:
        _remove(settings, with_schema=False)
    elif slot is not None or catalog.rows(_TAKEN):
        raise Fatal(
            f"the database has a slot, a schema or a publication {SCHEMA} that no benchmark made",
            hint="The benchmark needs that name for itself: use another database, or drop them.",
        )


def _until_let_go(catalog: Catalog, name: str) -> None:
    """A walsender notices that its relay has left only a moment later."""
    deadline = time.monotonic() + 5
    while (slot := catalog.slot(name)) and slot.active_pid is not None and time.monotonic() < deadline:
        time.sleep(0.02)
