"""Tables: what the doctor asks about them, and what `walrelay init --topics` makes."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

import psycopg
from psycopg import sql

from walrelay.errors import SinkError
from walrelay.identifiers import qualified_name
from walrelay.model import Finding
from walrelay.postgres.dsn import address
from walrelay.postgres.failures import first_line
from walrelay.sinks.address import AddressTemplate
from walrelay.sinks.making import making
from walrelay.sinks.postgres.groups import POSITIONS
from walrelay.sinks.postgres.rows import Role
from walrelay.sinks.postgres.settings import PostgresSettings

_TYPES = {Role.HEADERS: "jsonb", Role.TIMESTAMP: "timestamptz"}
_COLUMNS = (
    "SELECT attname FROM pg_catalog.pg_attribute WHERE attrelid = pg_catalog.to_regclass(%s) AND attnum > 0"
    " AND NOT attisdropped"
)
_TRIGGERS = (
    "SELECT EXISTS (SELECT FROM pg_catalog.pg_trigger WHERE tgrelid = pg_catalog.to_regclass(%s) AND NOT tgisinternal"
    " AND tgenabled IN ('O', 'A') AND tgtype & 7 = 7)"  # before each row that is inserted
)

_TAKES_COPY = (
    "SELECT relkind IN ('r', 'p', 'f') OR relkind = 'v' AND EXISTS (SELECT FROM pg_catalog.pg_trigger"
    " WHERE tgrelid = c.oid AND tgenabled IN ('O', 'A') AND tgtype & 69 = 69)"  # INSTEAD OF INSERT, for each row
    " FROM pg_catalog.pg_class AS c WHERE oid = pg_catalog.to_regclass(%s)"
)


def examine(settings: PostgresSettings, topics: Sequence[str]) -> Iterator[Finding]:
    """Connects, and asks for the tables that messages go to."""
    try:
        with closing(_connected(settings)) as connection:
            version = connection.info.parameter_status("server_version")
            yield Finding("sink", "ok", f"connected to PostgreSQL {version} at {_address(settings)}")
            if _value(connection, "SELECT pg_catalog.pg_is_in_recovery()"):
                yield Finding("sink", "problem", "it is a standby, and takes no rows", "Correct sink.dsn.")
            if _value(connection, "SHOW fsync") == "off":
                yield Finding(
                    "sink", "warning", "fsync is off there: a crash loses rows", "ALTER SYSTEM SET fsync = on;"
                )
            for table, topic in _tables(settings, topics).items():
                yield _examined(connection, settings, table, topic)
    except psycopg.Error as why:
        text = f"the database of the sink at {_address(settings)} cannot be used: {first_line(why)}"
        yield Finding("sink", "problem", text, "Correct sink.dsn, or start the server.")


def examine_positions(settings: PostgresSettings) -> Iterator[Finding]:
    try:
        with closing(_connected(settings)) as connection:
            name = sql.Identifier(*qualified_name(settings.positions_table)).as_string()
            if _value(connection, "SELECT pg_catalog.to_regclass(%s) IS NULL", name):
                text = f"there is no table {settings.positions_table} for positions yet; the relay makes it"
                yield Finding("sink", "ok", text)
            elif not _may(connection, name, "SELECT, INSERT, UPDATE"):
                text = f"the role of sink.dsn may not write to {settings.positions_table}"
                yield Finding("sink", "problem", text, _grant(connection, "SELECT, INSERT, UPDATE", name))
            else:
                yield Finding("sink", "ok", f"positions are kept in {settings.positions_table}")
    except psycopg.Error:
        return  # `examine` says it


def make_tables(settings: PostgresSettings, topics: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """Each table with the columns of the settings and a number that rises in the order of the commits."""
    made = ["seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY"]
    for role, column in settings.columns.by_role.items():
        made.append(f"{sql.Identifier(column).as_string()} {_TYPES.get(role, 'text')}")
    columns = ", ".join(made)
    wanted = dict.fromkeys(_tables(settings, topics), f"CREATE TABLE {{}} ({columns})")
    wanted[qualified_name(settings.positions_table)] = POSITIONS
    try:
        with closing(_connected(settings)) as connection:
            for table, statement in wanted.items():
                name = sql.Identifier(*table)
                missing = bool(_value(connection, "SELECT pg_catalog.to_regclass(%s) IS NULL", name.as_string()))
                if missing:
                    connection.execute(sql.SQL(statement).format(name))
                yield ".".join(table), missing
    except psycopg.Error as why:
        raise SinkError(
            f"the tables of the sink were not made: {first_line(why)}", hint="Make them yourself, or GRANT CREATE."
        ) from why


def _tables(settings: PostgresSettings, topics: Sequence[str]) -> dict[tuple[str, str], str]:
    """Those that are known beforehand, each with a topic whose rows go there."""
    names = AddressTemplate(settings.table).of_topics(topics)
    return {qualified_name(name): topic for name, topic in names.items()}


def _examined(
    connection: psycopg.Connection[Any], settings: PostgresSettings, table: tuple[str, str], topic: str
) -> Finding:
    name, shown = sql.Identifier(*table).as_string(), ".".join(table)
    there = {column for (column,) in connection.execute(_COLUMNS, [name])}
    wanted = [*settings.columns.by_role.values()]
    if not there:
        return Finding("sink", "problem", f"there is no table {shown}", making(topic, "create it yourself"))
    if not _value(connection, _TAKES_COPY, name):
        return Finding("sink", "problem", f"{shown} is no table: it takes no COPY", "Correct sink.table.")
    if missing := [column for column in wanted if column not in there]:
        return Finding("sink", "problem", f"{shown} has no column {missing[0]!r}", "Add it, or correct sink.columns.")
    if not _may(connection, name, "INSERT"):
        return Finding(
            "sink", "problem", f"the role of sink.dsn may not insert into {shown}", _grant(connection, "INSERT", name)
        )
    if _value(connection, "SELECT pg_catalog.row_security_active(%s)", name):
        fix = f"ALTER TABLE {name} DISABLE ROW LEVEL SECURITY;"
        return Finding("sink", "problem", f"{shown} has row security for the role of sink.dsn: it takes no COPY", fix)
    if _value(connection, _TRIGGERS, name):
        return Finding("sink", "warning", f"a trigger of {shown} may leave out rows, which count as published then")
    if _value(connection, "SELECT relpersistence <> 'p' FROM pg_catalog.pg_class WHERE oid = to_regclass(%s)", name):
        fix = f"ALTER TABLE {name} SET LOGGED;"
        return Finding("sink", "warning", f"{shown} is unlogged: a crash empties it", fix)
    return Finding("sink", "ok", f"{shown} is there")


def _may(connection: psycopg.Connection[Any], name: str, rights: str) -> bool:
    asked = (f"pg_catalog.has_any_column_privilege(%s, '{each}')" for each in rights.split(", "))
    given = [f"SELECT {question}" for question in asked]
    return all(_value(connection, question, name) for question in given)


def _grant(connection: psycopg.Connection[Any], rights: str, name: str) -> str:
    return f"GRANT {rights} ON {name} TO {sql.Identifier(connection.info.user).as_string()};"


def _value(connection: psycopg.Connection[Any], query: str, *parameters: Any) -> Any:
    row = connection.execute(query.encode(), parameters or None).fetchone()
    assert row is not None
    return row[0]


def _connected(settings: PostgresSettings) -> psycopg.Connection[Any]:
    return psycopg.connect(settings.dsn.get_secret_value(), autocommit=True, connect_timeout=10)


def _address(settings: PostgresSettings) -> str:
    return address(settings.dsn.get_secret_value())
