"""The outbox table: it exists, is of a kind that is replicated, and has the columns that the settings name."""

from collections.abc import Iterator
from difflib import get_close_matches
from typing import NamedTuple

from walrelay.errors import Fatal
from walrelay.identifiers import identifier
from walrelay.model import Finding
from walrelay.operations.doctor.expected import BY_RULE, Expected, ok, problem, warning
from walrelay.operations.doctor.writers import init_command
from walrelay.postgres.catalog import READABLE, Catalog
from walrelay.postgres.parts import incompletely_published, managed_by_partman
from walrelay.postgres.publications import KINDS
from walrelay.postgres.rights import (
    MARKS,
    POSITION,
    REFUSALS,
    RETENTION,
    MissingRight,
    grant_statements,
    missing_rights,
    role_rights,
)
from walrelay.table import days

_JSON_TEXT = {"json", "jsonb", "text", "character varying", "bytea"}
_TYPES = {"id": "uuid DEFAULT gen_random_uuid()", "payload": "jsonb", "headers": "jsonb NOT NULL DEFAULT '{}'"}
_REQUIRED = ("id", "payload")
REPLICATED_KINDS = ("r", "p")
_DAYS_AHEAD = 3


class ExaminedTable(NamedTuple):
    """The outbox in pg_class; looked up by name, because to_regclass raises without USAGE on the schema."""

    oid: int
    kind: str
    identified: bool  # UPDATE and DELETE can be replicated


class ExaminedColumn(NamedTuple):
    """`type_name` is without modifiers; `generated` is '', 's' (stored) or 'v' (virtual)."""

    type: int
    type_name: str
    generated: str


def look(catalog: Catalog, expected: Expected) -> ExaminedTable | None:
    rows = catalog.rows(
        """
        SELECT c.oid::int8, c.relkind::text, c.relreplident IN ('f', 'i') OR (c.relreplident = 'd' AND EXISTS
               (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary))
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relname = %s
        """,
        expected.schema,
        expected.table,
    )
    return ExaminedTable(*rows[0]) if rows else None


def look_at_columns(catalog: Catalog, table: ExaminedTable) -> dict[str, ExaminedColumn]:
    rows = catalog.rows(
        "SELECT attname::text, atttypid::int8, format_type(atttypid, NULL), attgenerated::text FROM pg_attribute"
        f" WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped AND {READABLE} ORDER BY attnum",
        table.oid,
    )
    return {name: ExaminedColumn(*rest) for name, *rest in rows}


def schema(catalog: Catalog, expected: Expected) -> Iterator[Finding]:
    """Every command looks the table up by name, which needs USAGE on its schema."""
    role, usable = catalog.rows(
        "SELECT current_user::text, (SELECT has_schema_privilege(oid, 'USAGE') FROM pg_namespace WHERE nspname = %s)",
        expected.schema,
    )[0]
    if usable is False:
        fix = grant_statements([*_lacking(catalog, expected, vital=True), *_lacking(catalog, expected, vital=False)])
        yield problem("privileges", f"{role} may not use schema {identifier(expected.schema)}", fix)


def rights(catalog: Catalog, expected: Expected) -> Iterator[Finding]:
    """Rights on what the relay reads and writes apart from the stream, which needs none on the outbox."""
    role = catalog.connection.info.user
    missing, lesser = _lacking(catalog, expected, vital=True), _lacking(catalog, expected, vital=False)
    if missing:
        yield problem("privileges", f"{role} lacks rights that the relay needs", grant_statements([*missing, *lesser]))
    elif lesser:
        why = (
            "cannot see what `walrelay skip` named, clean up, mark rows, or say what it does and that it is paused"
            if expected.retention or expected.marks
            else "cannot see its dead letters, or say what it does and that it is paused"
        )
        yield warning("privileges", f"{role} may relay, but {why}", grant_statements(lesser))
    else:
        yield ok("privileges", f"{role} has the rights that the relay needs")


def _lacking(catalog: Catalog, expected: Expected, *, vital: bool) -> list[MissingRight]:
    """The rights that a relay with these settings needs."""
    asked = {
        REFUSALS: expected.sets_aside,
        POSITION: expected.position_in_table,
        RETENTION: expected.retention,
        MARKS: expected.marks is not None,
    }
    when = {each for each, is_so in asked.items() if is_so}
    needed = role_rights("relay", (expected.schema, expected.table), when, vital=vital)
    return missing_rights(catalog.connection, needed)


def exists(catalog: Catalog, expected: Expected) -> Iterator[Finding]:
    table = look(catalog, expected)
    if table is None:
        yield problem("table", f"{expected.name} does not exist", init_command(catalog, expected, owner_of=None))
    elif table.kind in REPLICATED_KINDS:
        yield ok("table", expected.name + (", partitioned" if table.kind == "p" else ""))


def kind(catalog: Catalog, expected: Expected) -> Iterator[Finding]:
    table = look(catalog, expected)
    if table is not None and table.kind not in REPLICATED_KINDS:
        what = KINDS.get(table.kind, "no table")
        fix = "outbox.table: SCHEMA.TABLE   # in the settings: the table into which the writers insert"
        yield problem("table", f"{expected.name} is {what}, which is not replicated", fix)


def persistence(catalog: Catalog, expected: Expected) -> Iterator[Finding]:
    """Rows of an unlogged table are not in the WAL; a single partition may be unlogged, or a foreign table."""
    unlogged = catalog.rows(
        """
        SELECT n.nspname::text, c.relname::text, c.relkind = 'f'
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE (c.relpersistence <> 'p' OR c.relkind = 'f')
          AND (c.oid = %s OR c.oid IN (SELECT relid FROM pg_partition_tree(%s)))
        """,
        *[table.oid if (table := look(catalog, expected)) else None] * 2,
    )
    for schema_name, name, foreign in unlogged:
        quoted = f"{identifier(schema_name)}.{identifier(name)}"
        if foreign:
            detail = f"{schema_name}.{name} is a foreign table: its rows are not in this server's WAL"
            yield problem("table", detail, f"ALTER TABLE {expected.outbox} DETACH PARTITION {quoted};")
        else:
            detail = f"{schema_name}.{name} is unlogged or temporary: its rows are not in the WAL"
            yield problem("table", detail, f"ALTER TABLE {quoted} SET LOGGED;")


def partitions(catalog: Catalog, expected: Expected) -> Iterator[Finding]:
    """walrelay makes partitions a few days ahead: rows without one go into the default partition."""
    table = look(catalog, expected)
    if table is None or table.kind != "p":
        return
    if doubt := incompletely_published(catalog, expected.outbox):
        fix = expected.walrelay("audit") + "   # what is missing: `walrelay replay`; PostgreSQL 15 has no such gap"
        yield warning("partitions", f"{doubt}; the clean-up leaves those rows alone", fix)
    found = days.partitions(catalog, expected.outbox)
    if managed_by_partman(catalog, expected.outbox):
        yield ok("partitions", "pg_partman makes and drops them")
    elif found.ours:
        yield _ahead(found, expected)
        if found.default is not None and _has_rows(catalog, found.default):
            yield warning(
                "partitions",
                f"{found.default} has rows: days had no partition, or rows are of a time far from now",
                f"SELECT {days.COLUMN}::date, count(*) FROM {found.default} GROUP BY 1;  -- cleanup deletes old ones",
            )


def updates(catalog: Catalog, expected: Expected) -> Iterator[Finding]:
    """An UPDATE that moves a row to another partition is a DELETE and an INSERT, which is published again."""
    table = look(catalog, expected)
    if table is None or table.kind != "p":
        return
    grantees = catalog.rows(
        """
        WITH given AS (
            SELECT relacl AS acl, relowner FROM pg_class WHERE oid = %s
            UNION ALL
            SELECT attacl, relowner FROM pg_attribute JOIN pg_class c ON c.oid = attrelid
            JOIN pg_partitioned_table ON partrelid = attrelid AND attnum = ANY (partattrs::int2[]) WHERE attrelid = %s
        )
        SELECT DISTINCT CASE WHEN grantee = 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END
        FROM given, aclexplode(acl) WHERE privilege_type = 'UPDATE' AND grantee <> relowner
          AND NOT EXISTS (SELECT FROM pg_trigger WHERE tgrelid = %s AND tgenabled IN ('O', 'A')
                          AND tgtype & 2 = 2 AND tgtype & 16 = 16)
        ORDER BY 1
        """,
        *[table.oid] * 3,
    )
    if grantees:
        roles = ", ".join(role for (role,) in grantees)
        yield warning(
            "table",
            f"{roles} may UPDATE {expected.name}: one that moves a row to another partition publishes its event again",
            f"REVOKE UPDATE ON {expected.outbox} FROM {roles};",
        )


def _ahead(found: days.Partitions, expected: Expected) -> Finding:
    detail = f"made for today and {found.ahead} more days" if found.today else "there is none for today"
    if found.today and found.ahead >= _DAYS_AHEAD:
        return ok("partitions", detail)
    detail += ": nothing makes the coming ones"
    return warning("partitions", detail, expected.walrelay("init --partitioned") + "   # and set retention")


def _has_rows(catalog: Catalog, table: str) -> bool:
    """The columns, as far as the role may see them: the relay needs no right to read the table."""
    may = catalog.value("SELECT has_table_privilege(%s, 'SELECT')", table)
    return bool(may and catalog.value(f"SELECT EXISTS (SELECT FROM {table})"))


def columns(catalog: Catalog, expected: Expected) -> Iterator[Finding]:
    table = look(catalog, expected)
    if table is None or table.kind not in REPLICATED_KINDS:
        return
    there = look_at_columns(catalog, table)
    missing = {role: name for role, name in expected.columns.items() if name not in there}
    for role, name in missing.items():
        free = [column for column in there if column not in expected.columns.values()]
        yield problem("columns", f"{expected.name} has no column {name!r}", _column(expected, role, name, free))
    if not missing:
        yield ok("columns", ", ".join(expected.columns.values()))


def _column(expected: Expected, role: str, name: str, free: list[str]) -> str:
    """Suggests a column with a similar name, or adding one."""
    if role.startswith(BY_RULE):
        near = get_close_matches(name, free, n=1, cutoff=0.7)
        return f"correct `routes` in the settings, which name {role}" + (f": {BY_RULE}{near[0]}" if near else "")
    if near := get_close_matches(name, free, n=1, cutoff=0.7):
        return f"outbox.columns.{role}: {near[0]}   # in the settings"
    add = f"ALTER TABLE {expected.outbox} ADD COLUMN {identifier(name)} {_TYPES.get(role, 'text')};"
    return add if role in _REQUIRED else f"{add}  -- or, in the settings, outbox.columns.{role}: null"


def generated(catalog: Catalog, expected: Expected) -> Iterator[Finding]:
    """pgoutput leaves generated columns out: stored ones before PostgreSQL 18, virtual ones always (guarantees A21)."""
    table = look(catalog, expected)
    if table is None or table.kind not in REPLICATED_KINDS:
        return
    there = look_at_columns(catalog, table)
    left_out = "v" if expected.plugin != "pgoutput" or catalog.server_version >= 180000 else "sv"
    for name in expected.columns.values():
        kind = there[name].generated
        if kind and kind in left_out:
            drop = f"ALTER TABLE {expected.outbox} ALTER COLUMN {identifier(name)}"
            fix = f"{drop} DROP EXPRESSION;  -- then let the writers fill it" if kind == "s" else f"{drop} ...;"
            yield problem("columns", f"{name!r} is a generated column, which this server does not replicate", fix)


def headers(catalog: Catalog, expected: Expected) -> Iterator[Finding]:
    table, name = look(catalog, expected), expected.columns.get("headers")
    if table is None or name is None or table.kind not in REPLICATED_KINDS:
        return
    type_name = look_at_columns(catalog, table)[name].type_name
    if type_name not in _JSON_TEXT:
        column = identifier(name)
        yield warning(
            "columns",
            f"{name!r} has type {type_name}, but must hold a JSON object",
            f"ALTER TABLE {expected.outbox} ALTER COLUMN {column} TYPE jsonb USING to_jsonb({column});",
        )


def types(catalog: Catalog, expected: Expected) -> Iterator[Finding]:
    """The relay refuses them at its start."""
    if expected.router is not None and look(catalog, expected) is not None:
        try:
            expected.router(catalog)
        except Fatal as error:
            yield problem("column types", str(error), "walrelay docs from-debezium   # which types can be used where")


def binary(catalog: Catalog, expected: Expected) -> Iterator[Finding]:
    """For information: text works as well, and costs the server a conversion."""
    table = look(catalog, expected)
    if table is None or expected.binary_types is None or table.kind not in REPLICATED_KINDS:
        return
    there = look_at_columns(catalog, table)
    unsuited = [name for name in expected.columns.values() if there[name].type not in expected.binary_types]
    if unsuited:
        shown = ", ".join(f"{name} ({there[name].type_name})" for name in unsuited)
        yield ok("binary mode", f"off, values are sent as text, because of {shown}")
    else:
        yield ok("binary mode", "on: every column has a type that is read in it")
