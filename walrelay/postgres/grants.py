"""Which rights the current role lacks, and the GRANTs that give them: asked before anything is changed, and for whoever
was refused.

The server's own words are translated and name no role. So a statement that was refused is read for the tables that it
names, and the server is asked which right to them is missing.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import psycopg
from psycopg.pq import TransactionStatus

from walrelay.identifiers import identifier
from walrelay.postgres.rights import OWN, Right

_NAME = r'("(?:[^"]|"")+"|\w+)'
_READ = ("SELECT",)
_WORDS = {
    "FROM": _READ,
    "JOIN": _READ,
    "DELETE FROM": ("SELECT", "DELETE"),
    "INSERT INTO": ("INSERT",),
    "UPDATE": ("SELECT", "UPDATE"),
}
_TABLE = re.compile(rf"\b(DELETE FROM|INSERT INTO|UPDATE|FROM|JOIN)\s+(?:ONLY\s+)?{_NAME}\.{_NAME}")
_LOOKED_UP = re.compile(rf"to_regclass\('{_NAME}\.{_NAME}'\)")


class Lacking(NamedTuple):
    """A right: what it is for people, and the statement that gives it."""

    what: str
    grant: str


def lacking(connection: psycopg.Connection[Any], rights: Iterable[Right]) -> list[Lacking]:
    """What of these it has not, in their order, what is of one table together; nothing for what is not there."""
    return together(
        connection, [right for right in rights if connection.execute(*_question(right)).fetchone() is not None]
    )


def together(connection: psycopg.Connection[Any], rights: Iterable[Right]) -> list[Lacking]:
    """All of these, whether the current role has them or not."""
    found: dict[tuple[str, str | None, str | None], dict[str, None]] = {}
    for right in rights:
        found.setdefault(right[1:], {})[right.privilege] = None
    return [_missing(role(connection), list(privileges), *where) for where, privileges in found.items()]


def statements(missing: Iterable[Lacking]) -> str:
    """In one line, to paste."""
    return " ".join(each.grant for each in missing)


def refused(connection: psycopg.Connection[Any], statement: str) -> str:
    """The GRANTs for a statement that was refused; empty where the cause is another one than a table's right."""
    return of_all(connection, _asked(statement))


def of_all(connection: psycopg.Connection[Any], rights: Iterable[Right]) -> str:
    """The GRANTs for what of these it has not, after an error: a transaction that it ended is rolled back. Empty where
    the server does not say.
    """
    try:
        if connection.info.transaction_status == TransactionStatus.INERROR:
            connection.execute("ROLLBACK")
        return statements(lacking(connection, rights))
    except psycopg.Error:
        return ""


def _asked(statement: str) -> Iterator[Right]:
    for schema, table in _LOOKED_UP.findall(statement):
        yield Right("USAGE", _plain(schema))
        yield Right("SELECT", _plain(schema), _plain(table))
    for word, schema, table in _TABLE.findall(statement):
        yield Right("USAGE", _plain(schema))
        again = "ON CONFLICT" in statement and word == "INSERT INTO"
        for privilege in (*_WORDS[word], *(("SELECT", "UPDATE") if again else ())):
            yield Right(privilege, _plain(schema), _plain(table))


def _plain(name: str) -> str:
    name = name.replace("%%", "%")
    return name[1:-1].replace('""', '"') if name.startswith('"') else name


def _question(right: Right) -> tuple[bytes, list[str]]:
    """A row if it is lacking."""
    if right.table is None:
        query = b"SELECT FROM pg_namespace WHERE nspname = %s AND NOT has_schema_privilege(oid, %s)"
        return query, [right.schema, right.privilege]
    names, columns = [right.schema, right.table], [right.column] if right.column else []
    has = b"has_column_privilege(c.oid, %s, %s)" if columns else b"has_table_privilege(c.oid, %s)"
    query = b"SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname = %s AND relname = %s"
    return query + b" AND NOT " + has, [*names, *columns, right.privilege]


def _missing(to: str, privileges: list[str], schema: str, table: str | None, column: str | None) -> Lacking:
    place = schema if schema == OWN else identifier(schema)
    if table is None:
        return Lacking(f"use schema {place}", f"GRANT USAGE ON SCHEMA {place} TO {to};")
    place += f".{table if schema == OWN else identifier(table)}"
    what = f"{', '.join(privileges).lower()} {f'{column} ' if column else ''}in {place}"
    of_it = f" ({column})" if column else ""
    return Lacking(what, f"GRANT {', '.join(privileges)}{of_it} ON {place} TO {to};")


def role(connection: psycopg.Connection[Any]) -> str:
    """The current one, quoted."""
    return identifier(connection.info.user)
