"""What the database has paid so far: statements, WAL, the CPU time of the server. A cost is two readings apart."""

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from walrelay.identifiers import identifier
from walrelay.lab.bench.names import ROLE, SCHEMA, TABLE
from walrelay.lab.bench.results import Cost
from walrelay.lab.servers.backstage import Child
from walrelay.postgres.catalog import Catalog

_PROC = Path("/proc")
_TICK = os.sysconf("SC_CLK_TCK")


class ServerCpu:
    """Of the server that a connection leads to; None where its processes cannot be seen."""

    def __init__(self, catalog: Catalog) -> None:
        self._postmaster = _postmaster(catalog)

    def seconds(self) -> float | None:
        """Since it was started: of the processes that run, and of those that ended and were waited for."""
        if self._postmaster is None:
            return None
        try:
            return sum(_running_s(pid) for pid in _family(self._postmaster)) + _ended_s(self._postmaster)
        except OSError:
            return None


def _postmaster(catalog: Catalog) -> int | None:
    """The parent of our own backend, if that process is what it should be: the server may be on another machine."""
    info = catalog.connection.info
    try:
        backend = info.backend_pid
        title = (_PROC / str(backend) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        ours = title.startswith("postgres") and f" {info.user} {info.dbname} " in title
        return int(_stat(backend)[1]) if ours else None
    except OSError:
        return None


def _family(postmaster: int) -> Iterator[int]:
    yield postmaster
    for directory in _PROC.glob("[0-9]*"):
        try:
            if int(_stat(int(directory.name))[1]) == postmaster:
                yield int(directory.name)
        except OSError:
            continue  # it ended meanwhile


def _running_s(pid: int) -> float:
    """By schedstat, which counts nanoseconds: there are a dozen processes, and ticks of 10 ms are cut off for each."""
    try:
        return int((_PROC / str(pid) / "schedstat").read_text().split()[0]) / 1e9
    except OSError:
        return sum(map(int, _stat(pid)[11:13])) / _TICK


def _ended_s(parent: int) -> float:
    return sum(map(int, _stat(parent)[13:15])) / _TICK


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the state on: parent's pid at 1, user and system time at 11 and 12, of ended
    children at 13 and 14. The name before them may hold anything, blanks and brackets too."""
    return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()


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


_PATIENCE = 15.0  # seconds; a session that sleeps tells its statistics after ten

_DEAD = f"SELECT coalesce(sum(n_tup_upd + n_tup_del), 0)::float8 FROM pg_stat_user_tables WHERE schemaname = '{SCHEMA}'"


class Meter:
    """One for the whole run: `dead` only grows, and TRUNCATE does not set it back."""

    def __init__(self, catalog: Catalog, statements: Counter) -> None:
        self._catalog, self._statements, self._cpu = catalog, statements, ServerCpu(catalog)

    def read(self) -> Cost:
        wal_bytes = self._catalog.value("SELECT (pg_current_wal_insert_lsn() - '0/0')::float8")
        return Cost(self._statements.so_far(), wal_bytes, self._dead_tuples(), self._cpu.seconds())

    def of_writer(self, cost: Cost) -> Cost:
        """What was measured of the writer alone, as it is reported: statements only if they were counted."""
        return cost._replace(statements=None) if self._statements.workers_only else cost

    def await_statistics(self, before: Cost) -> None:
        """Sessions tell their statistics late: wait until they tell of every row that the outbox shows as updated.

        Each of them has left a dead version behind.
        """
        updated = self._catalog.value(f"SELECT count(*) FROM {TABLE} WHERE published_at IS NOT NULL")
        _wait(lambda: self._dead_tuples() - (before.dead_tuples or 0.0) >= updated)

    def _dead_tuples(self) -> float:
        return float(self._catalog.value(_DEAD))


def _wait(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
