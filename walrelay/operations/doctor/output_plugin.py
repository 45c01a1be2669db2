"""The output plugin: allowed by the server, and installed there."""

import re
from collections.abc import Iterator

from walrelay.identifiers import identifier
from walrelay.model import Finding
from walrelay.operations.doctor import table
from walrelay.operations.doctor.expected import Expected, ok, problem, warning
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.failures import Denied

_SUBJECT = "output plugin"


def allowed(catalog: Catalog, expected: Expected) -> Iterator[Finding]:
    """The minors since August 2026 have a list of the plugins that may be used (PITFALLS A35)."""
    libraries = catalog.value("SELECT setting FROM pg_settings WHERE name = 'output_plugin_libraries'")
    if libraries is not None and (fix := allowing(libraries, expected.plugin)):
        yield problem("output_plugin_libraries", f"does not have {expected.plugin}: {libraries}", fix)
    elif libraries is not None:
        yield ok("output_plugin_libraries", libraries)


def allowing(libraries: str, plugin: str) -> str:
    """The statement that adds `plugin` to the list; empty when it is there.

    A list given as one quoted string is stored as a single name, which allows nothing: it is taken apart here.
    """
    names = [name.replace('""', '"') or bare for name, bare in re.findall(r'"((?:[^"]|"")*)"|([^\s,]+)', libraries)]
    if plugin in names:
        return ""
    parts = [part.strip() for name in names for part in name.split(",")]
    listed = ", ".join(_written(part) for part in dict.fromkeys([*parts, plugin]) if part)
    return f"ALTER SYSTEM SET output_plugin_libraries = {listed}; SELECT pg_reload_conf();"


def _written(name: str) -> str:
    return name if re.fullmatch("[a-z_][a-z0-9_]*", name) else identifier(name)


def installed(catalog: Catalog, expected: Expected) -> Iterator[Finding]:
    if expected.plugin == "pgoutput":
        return  # part of PostgreSQL
    there = _library_exists(catalog, expected.plugin)
    major = catalog.server_version // 10000
    if there:
        yield ok(_SUBJECT, f"{expected.plugin} is installed")
    elif there is False:
        yield problem(
            _SUBJECT,
            f"{expected.plugin} is not installed on the server",
            f"apt-get install postgresql-{major}-{expected.plugin}   # or source.plugin: pgoutput",
        )
    elif user := catalog.value("SELECT slot_name FROM pg_replication_slots WHERE plugin = %s LIMIT 1", expected.plugin):
        yield ok(_SUBJECT, f"{expected.plugin} made slot {user}")
    else:
        yield warning(
            _SUBJECT,
            f"this role cannot see whether {expected.plugin} is installed; making the slot will tell",
            expected.walrelay("init"),
        )


def encoding(catalog: Catalog, expected: Expected) -> Iterator[Finding]:
    """Rows that wal2json would spell wrong."""
    if expected.plugin == "wal2json" and (name := catalog.server_encoding()) not in ("UTF8", "SQL_ASCII"):
        detail = f"wal2json prints text in the database's encoding, which is {name}, not in UTF-8"
        yield problem(_SUBJECT, detail, _the_other(catalog, expected))


def partitions(catalog: Catalog, expected: Expected) -> Iterator[Finding]:
    """Rows that wal2json would not send under the table's name."""
    if expected.plugin != "wal2json":
        return
    outbox = table.look(catalog, expected)
    if outbox is not None and outbox.kind == "p":
        detail = f"{expected.name} is partitioned, and wal2json names the partition with each row: none would be found"
        yield problem(_SUBJECT, detail, _the_other(catalog, expected))


def _the_other(catalog: Catalog, expected: Expected) -> str:
    """A slot stays with the plugin that it was made for."""
    fix, slot = "source.plugin: pgoutput   # in the settings", catalog.slot(expected.slot)
    if slot is None or slot.plugin != expected.plugin:
        return fix
    return f"{fix}; then {expected.walrelay('drop --yes')} && {expected.walrelay('init --backfill')}"


def _library_exists(catalog: Catalog, plugin: str) -> bool | None:
    """Whether the library lies where the server loads from; None where the role may not look into files."""
    try:
        size = catalog.value(
            "SELECT (pg_stat_file(setting || '/' || %s || '.so', true)).size FROM pg_config WHERE name = 'PKGLIBDIR'",
            plugin,
        )
    except Denied:
        return None
    return size is not None
