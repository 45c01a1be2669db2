"""The benchmark's objects in the database: made by the code of `walrelay init`, with names of its own."""

from collections.abc import Iterator
from contextlib import contextmanager

from walrelay import compose
from walrelay.config import Settings
from walrelay.ddl import script
from walrelay.errors import Fatal
from walrelay.lab.bench.names import BUSINESS, CHANNEL, ROLE, SCHEMA, TABLE
from walrelay.lab.servers import guest
from walrelay.postgres import connect
from walrelay.postgres.catalog import Catalog

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
GRANT SELECT ON walrelay.slots, walrelay.dead_letters TO {ROLE};
"""

_BELL = f"CREATE TRIGGER ring AFTER INSERT ON {TABLE} FOR EACH STATEMENT EXECUTE FUNCTION {SCHEMA}.ring()"


@contextmanager
def prepared(settings: Settings, *, embedded: bool) -> Iterator[Catalog]:
    """Schema, tables, publication and slot, and on a server of its own a role for the workers.

    Yields a connection for questions. Everything goes afterwards; an embedded server goes as a whole.
    """
    with Catalog(compose.dsn(settings)) as catalog:
        connect.set_statement_timeout(catalog.connection, _PATIENCE)
        guest.refuse_wrong_wal_level(catalog, "the benchmark")
        _be_the_only_one(catalog)
        guest.remove_leftovers(catalog, settings, "benchmark", SCHEMA, _MARK)
        bookkeeping = guest.has_bookkeeping(catalog)
        try:
            guest.make(catalog, settings, "the benchmark", TABLES, with_emit=False, patience=_PATIENCE)
            if embedded:
                catalog.connection.execute(_ROLE.encode())
            yield catalog
        finally:
            if not embedded:
                guest.remove(settings, SCHEMA, with_bookkeeping=not bookkeeping)


def renew(catalog: Catalog, slot: str, *, embedded: bool) -> None:
    """Each segment finds empty tables, nothing that waits in the slot, and pages that were not written lately.

    The first change of a page after a checkpoint writes all of it to the WAL: without a checkpoint here, a few of
    the strategies would pay that. On the user's server there is none, so these may.
    """
    catalog.connection.execute(f"TRUNCATE {TABLE}, {BUSINESS}".encode())
    if embedded:
        catalog.connection.execute("CHECKPOINT")
    guest.until_let_go(catalog, slot)
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


def _be_the_only_one(catalog: Catalog) -> None:
    """A lock of this session; a benchmark that was killed has none any more."""
    if not catalog.value("SELECT pg_try_advisory_lock(hashtext(%s))", SCHEMA):
        raise Fatal("another benchmark is running on this database", hint="Wait until it has ended.")
