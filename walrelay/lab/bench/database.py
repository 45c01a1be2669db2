"""The benchmark's objects in the database, and what the database has paid so far.

The code of `walrelay init` makes the objects, with names of their own. The database pays statements, WAL and the CPU
time of the server; a cost is the difference of two readings.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import psutil

from walrelay.ddl import script
from walrelay.errors import Fatal
from walrelay.identifiers import identifier
from walrelay.lab.bench.child import BUSINESS, CHANNEL, ROLE, SCHEMA, TABLE
from walrelay.lab.bench.machine import cpu_s, title
from walrelay.lab.bench.results import Cost
from walrelay.lab.servers import guest
from walrelay.lab.servers.backstage import Child, waited
from walrelay.postgres import connect
from walrelay.postgres.catalog import Catalog
from walrelay.wiring import Wiring

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
CREATE FUNCTION {SCHEMA}.notify() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NOTIFY {CHANNEL}; RETURN NULL; END';
"""

# What walrelay and a polling worker need, and no more; they differ from the writer so that they can be told apart.
_ROLE = f"""
CREATE ROLE {ROLE} LOGIN REPLICATION;
GRANT USAGE ON SCHEMA {SCHEMA}, walrelay TO {ROLE};
GRANT SELECT, UPDATE ON {TABLE} TO {ROLE};
GRANT SELECT ON walrelay.slots, walrelay.dead_letters TO {ROLE};
GRANT SELECT, INSERT, UPDATE ON walrelay.relays, walrelay.activity TO {ROLE};
GRANT UPDATE (published_from) ON walrelay.slots TO {ROLE}; -- for run --from-slot, with which exactly-once is measured
"""

_NOTIFY = f"CREATE TRIGGER notify AFTER INSERT ON {TABLE} FOR EACH STATEMENT EXECUTE FUNCTION {SCHEMA}.notify()"


@contextmanager
def prepared(wiring: Wiring, *, embedded: bool) -> Iterator[Catalog]:
    """Schema, tables, publication and slot, and on a server of its own a role for the workers.

    Yields a connection for questions. Everything goes afterwards; an embedded server goes as a whole.
    """
    with Catalog(wiring.dsn) as catalog:
        connect.set_statement_timeout(catalog.connection, _PATIENCE)
        guest.refuse_wrong_wal_level(catalog, "the benchmark")
        _be_the_only_one(catalog)
        guest.remove_leftovers(catalog, wiring, "benchmark", SCHEMA, _MARK)
        bookkeeping = guest.has_bookkeeping(catalog)
        try:
            guest.make(catalog, wiring, "the benchmark", TABLES, with_emit=False, patience=_PATIENCE)
            if embedded:
                catalog.connection.execute(_ROLE.encode())
            yield catalog
        finally:
            if not embedded:
                guest.remove(wiring, SCHEMA, with_bookkeeping=not bookkeeping)


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
def notifying(catalog: Catalog) -> Iterator[None]:
    """While this is entered, every insert notifies whoever listens."""
    catalog.connection.execute(_NOTIFY.encode())
    try:
        yield
    finally:
        catalog.connection.execute(f"DROP TRIGGER notify ON {TABLE}".encode())


def _be_the_only_one(catalog: Catalog) -> None:
    """A lock of this session; a benchmark that was killed has none any more."""
    if not catalog.value("SELECT pg_try_advisory_lock(hashtext(%s))", SCHEMA):
        raise Fatal("another benchmark is running on this database", hint="Wait until it has ended.")


class ServerCpu:
    """The CPU time of the server that a connection leads to; None where its processes cannot be seen."""

    def __init__(self, catalog: Catalog) -> None:
        self._postmaster = _postmaster(catalog)

    def seconds(self) -> float | None:
        """Since it was started: of the processes that run, and of those that ended and were waited for."""
        if self._postmaster is None:
            return None
        try:
            family = [self._postmaster, *self._postmaster.children()]
            ended = self._postmaster.cpu_times()
        except psutil.Error:
            return None
        running = sum(cpu_s(each.pid) or 0.0 for each in family)
        return running + float(ended.children_user + ended.children_system)


def _postmaster(catalog: Catalog) -> psutil.Process | None:
    """The parent of our own backend, if that process is what it should be: the server may be on another machine."""
    info = catalog.connection.info
    try:
        backend = psutil.Process(info.backend_pid)
        said = title(backend)
        return backend.parent() if said.startswith("postgres") and f" {info.user} {info.dbname} " in said else None
    except psutil.Error:
        return None


class Counter(NamedTuple):
    """`so_far` gives None where it cannot be known. `workers_only`: the writer's statements are not among them."""

    so_far: Callable[[], float | None]
    workers_only: bool


_LIBRARY = "pg_stat_statements"
_LINE = re.compile(rf"^{ROLE} LOG:  (?:statement|execute )", re.MULTILINE)


def server_settings(bin_directory: Path) -> Mapping[str, str | int]:
    """What a server of our own needs for either way."""
    if _has_library(bin_directory):
        return {"shared_preload_libraries": _LIBRARY}
    return {"log_line_prefix": "%u ", "log_parameter_max_length": 0}


def counter(catalog: Catalog, server: Child | None) -> Counter:
    """`server`: our own, on which the workers have a role of their own; None: the user's."""
    loaded = _LIBRARY in str(catalog.value("SHOW shared_preload_libraries"))
    if server is not None and loaded:
        catalog.connection.execute(f"CREATE EXTENSION {_LIBRARY}".encode())
        return Counter(_by_extension(catalog, ROLE), True)
    if server is not None:
        catalog.connection.execute(f"ALTER ROLE {ROLE} SET log_statement = 'all'".encode())
        return Counter(lambda: len(_LINE.findall(server.log())), True)
    return Counter(_by_extension(catalog, catalog.connection.info.user) if loaded else lambda: None, False)


def _by_extension(catalog: Catalog, role: str) -> Callable[[], float | None]:
    """Where the extension was not made in this database nothing is known."""
    schema = catalog.value(
        "SELECT nspname::text FROM pg_extension JOIN pg_namespace n ON n.oid = extnamespace WHERE extname = %s",
        _LIBRARY,
    )
    if schema is None:
        return lambda: None
    query = f"""
        SELECT coalesce(sum(calls), 0)::float8 FROM {identifier(schema)}.pg_stat_statements(false)
        WHERE userid = (SELECT oid FROM pg_roles WHERE rolname = %s)
          AND dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
    """
    return lambda: float(catalog.value(query, role))


def _has_library(bin_directory: Path) -> bool:
    """Debian and the wheels have it beside bin, in lib or below it."""
    beside = bin_directory.parent
    return any(path for name in ("lib", "lib/postgresql") for path in (beside / name).glob(f"{_LIBRARY}.*"))


_STATISTICS_PATIENCE = 15.0  # seconds; a session that sleeps tells its statistics after ten

_DEAD = f"SELECT coalesce(sum(n_tup_upd + n_tup_del), 0)::float8 FROM pg_stat_user_tables WHERE schemaname = '{SCHEMA}'"


class Meter:
    """One for the whole run: `dead` only grows, and TRUNCATE does not set it back."""

    def __init__(self, catalog: Catalog, statements: Counter) -> None:
        self._catalog, self._statements, self._cpu = catalog, statements, ServerCpu(catalog)

    def read(self, worker_cpu_s: float | None = None) -> Cost:
        wal_bytes = self._catalog.value("SELECT (pg_current_wal_insert_lsn() - '0/0')::float8")
        return Cost(self._statements.so_far(), wal_bytes, self._dead_tuples(), self._cpu.seconds(), worker_cpu_s)

    def of_writer(self, cost: Cost) -> Cost:
        """What was measured of the writer alone, as it is reported: statements only if they were counted."""
        return cost._replace(statements=None) if self._statements.workers_only else cost

    def await_statistics(self, before: Cost) -> None:
        """Sessions tell their statistics late: wait until they tell of every row that the outbox shows as updated.

        Each of them has left a dead version behind.
        """
        updated = self._catalog.value(f"SELECT count(*) FROM {TABLE} WHERE published_at IS NOT NULL")
        waited(lambda: self._dead_tuples() - (before.dead_tuples or 0.0) >= updated, _STATISTICS_PATIENCE, 0.05)

    def _dead_tuples(self) -> float:
        return float(self._catalog.value(_DEAD))
