"""How many statements the workers had the server run: by pg_stat_statements, or by the log of a server of its own."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from walrelay.identifiers import identifier
from walrelay.lab.bench.names import ROLE
from walrelay.lab.servers.backstage import Child
from walrelay.postgres.catalog import Catalog


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
