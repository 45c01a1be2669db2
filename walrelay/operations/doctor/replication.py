"""The connections: whether they can be made, what role and pooler allow, and whether the output plugin is installed."""

import re
from collections.abc import Iterator

from walrelay.errors import Fatal, NotConnected, Retryable
from walrelay.identifiers import identifier
from walrelay.model import Finding
from walrelay.operations.doctor import table
from walrelay.operations.doctor.expected import Expected, ok, problem, warning
from walrelay.operations.doctor.server import free_senders
from walrelay.postgres import connect
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.dsn import SharedSession, cure, direct_dsn, has_pooler, refusal
from walrelay.postgres.failures import Denied, first_line, server_message
from walrelay.postgres.rights import grant_statements
from walrelay.postgres.role_checks import rights_to_replicate


def made(catalog: Catalog) -> Finding:
    info = catalog.connection.info
    version = info.parameter_status("server_version") or str(info.server_version)
    return ok("connection", f"PostgreSQL {version.split()[0]} at {info.host}:{info.port}/{info.dbname} as {info.user}")


def failed(expected: Expected, cause: Exception) -> Finding:
    if isinstance(cause, SharedSession):
        return problem("connection", str(cause), cause.hint)
    if isinstance(cause, Fatal):
        return problem("connection", str(cause), "source.dsn: postgresql://user@host/db")
    fix = cause.hint if isinstance(cause, NotConnected) else cure(first_line(cause), expected.dsn).fix
    return problem("connection", refusal(first_line(cause)), fix)


_SUBJECT = "replication connection"


def role(catalog: Catalog, expected: Expected) -> Iterator[Finding]:
    name = catalog.connection.info.user
    if missing := rights_to_replicate(catalog):
        yield problem("role", f"{name} has no REPLICATION attribute", grant_statements(missing))
    else:
        yield ok("role", f"{name} may replicate")


def connection(catalog: Catalog, expected: Expected) -> Iterator[Finding]:
    """Opens one and asks IDENTIFY_SYSTEM: nothing else shows whether pg_hba.conf and poolers allow it."""
    if free_senders(catalog) == 0:
        return  # the running relay has the last one: so it can be had
    pooled = has_pooler(catalog.connection)
    try:
        system = _identify(expected.dsn)
    except Retryable as cause:
        if pooled:
            yield problem(
                _SUBJECT,
                f"the DSN leads to a connection pooler, which refuses: {refusal(first_line(cause))}",
                direct_dsn(catalog.connection, expected.dsn),
            )
        else:
            yield problem(_SUBJECT, refusal(first_line(cause)), cure(str(cause), expected.dsn).fix)
        return
    if pooled:
        yield warning(
            _SUBJECT,
            "goes through a connection pooler, whose limits cut the stream",
            direct_dsn(catalog.connection, expected.dsn),
        )
    else:
        yield ok(_SUBJECT, system)


def pooler(catalog: Catalog, expected: Expected) -> Iterator[Finding]:
    """Like `connection`, only for faults of a pooler: no retry cures those."""
    if has_pooler(catalog.connection):
        yield from connection(catalog, expected)


def _identify(dsn: str) -> str:
    replicating = connect.replication(dsn)
    try:
        result = connect.answer(replicating, "IDENTIFY_SYSTEM")
        if result.status != connect.Status.TUPLES_OK:  # a pooler that ignores `replication` makes an ordinary one
            raise Retryable(f"IDENTIFY_SYSTEM: {server_message(result)}")
        identifier, timeline = [(result.get_value(0, column) or b"").decode() for column in (0, 1)]
        return f"system {identifier}, timeline {timeline}"
    finally:
        replicating.close()


_OUTPUT_PLUGIN = "output plugin"


def allowed(catalog: Catalog, expected: Expected) -> Iterator[Finding]:
    """The minors since August 2026 have a list of the plugins that may be used (guarantees A35)."""
    libraries = catalog.value("SELECT setting FROM pg_settings WHERE name = 'output_plugin_libraries'")
    if libraries is not None and (fix := allowing(libraries, expected.plugin)):
        yield problem("output_plugin_libraries", f"does not have {expected.plugin}: {libraries}", fix)
    elif libraries is not None:
        yield ok("output_plugin_libraries", libraries)


def allowing(libraries: str, plugin: str) -> str:
    """The statement that adds `plugin` to the list; empty if it is in it.

    A list given as one quoted string is stored as a single name, which allows nothing: it is split here.
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
        yield ok(_OUTPUT_PLUGIN, f"{expected.plugin} is installed")
    elif there is False:
        yield problem(
            _OUTPUT_PLUGIN,
            f"{expected.plugin} is not installed on the server",
            f"apt-get install postgresql-{major}-{expected.plugin}   # or source.plugin: pgoutput",
        )
    elif user := catalog.value("SELECT slot_name FROM pg_replication_slots WHERE plugin = %s LIMIT 1", expected.plugin):
        yield ok(_OUTPUT_PLUGIN, f"{expected.plugin} made slot {user}")
    else:
        yield warning(
            _OUTPUT_PLUGIN,
            f"this role cannot see whether {expected.plugin} is installed; creating the slot will show it",
            expected.walrelay("init"),
        )


def encoding(catalog: Catalog, expected: Expected) -> Iterator[Finding]:
    """wal2json would print some rows in another encoding."""
    if expected.plugin == "wal2json" and (name := catalog.server_encoding()) not in ("UTF8", "SQL_ASCII"):
        detail = f"wal2json prints text in the database's encoding, which is {name}, not in UTF-8"
        yield problem(_OUTPUT_PLUGIN, detail, _the_other(catalog, expected))


def partitions(catalog: Catalog, expected: Expected) -> Iterator[Finding]:
    """wal2json does not send rows of partitions under the table's name."""
    if expected.plugin != "wal2json":
        return
    outbox = table.look(catalog, expected)
    if outbox is not None and outbox.kind == "p":
        detail = (
            f"{expected.name} is partitioned, and wal2json reports each row under its partition: none would be found"
        )
        yield problem(_OUTPUT_PLUGIN, detail, _the_other(catalog, expected))


def _the_other(catalog: Catalog, expected: Expected) -> str:
    """The fix that changes to the other plugin. A slot stays with the plugin that it was made for."""
    fix, slot = "source.plugin: pgoutput   # in the settings", catalog.slot_of_any_database(expected.slot)
    if slot is None or slot.plugin != expected.plugin:
        return fix
    return f"{fix}; then {expected.walrelay('drop --yes')} && {expected.walrelay('init --backfill')}"


def _library_exists(catalog: Catalog, plugin: str) -> bool | None:
    """Whether the library is where the server loads from; None if the role may not see files."""
    try:
        size = catalog.value(
            "SELECT (pg_stat_file(setting || '/' || %s || '.so', true)).size FROM pg_config WHERE name = 'PKGLIBDIR'",
            plugin,
        )
    except Denied:
        return None
    return size is not None
