"""Which right a role lacks, and the GRANT that gives it: for the doctor before, and for whoever was refused.

The server's own words are translated and name no role. So a statement that was refused is read for the tables that it
names, and the server is asked which right to them is missing.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import psycopg
from psycopg.pq import TransactionStatus

from walrelay.identifiers import identifier

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


class Right(NamedTuple):
    """A privilege on a table, or on a schema where `table` is None; names as they are, not quoted."""

    privilege: str
    schema: str
    table: str | None = None


def lacking(connection: psycopg.Connection[Any], rights: Iterable[Right]) -> list[str]:
    """The GRANTs for what the current role has not, in the order of `rights`; nothing for what is not there."""
    return list(dict.fromkeys(_grant(*row) for right in rights for row in connection.execute(*_question(right))))


def refused(connection: psycopg.Connection[Any], statement: str) -> str:
    """The GRANTs for a statement that was refused; empty where the cause is another one than a table's right."""
    return of_all(connection, _asked(statement))


def of_all(connection: psycopg.Connection[Any], rights: Iterable[Right]) -> str:
    """As `lacking`, in one line, after an error: a transaction that it ended is rolled back. Empty where the server
    does not say.
    """
    try:
        if connection.info.transaction_status == TransactionStatus.INERROR:
            connection.execute("ROLLBACK")
        return " ".join(lacking(connection, rights))
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
    if right.table is None:
        return (
            b"SELECT current_user::text, %s, nspname::text, NULL FROM pg_namespace"
            b" WHERE nspname = %s AND NOT has_schema_privilege(oid, 'USAGE')",
            [right.privilege, right.schema],
        )
    return (
        b"SELECT current_user::text, %s, nspname::text, relname::text"
        b" FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace"
        b" WHERE nspname = %s AND relname = %s AND NOT has_table_privilege(c.oid, %s)",
        [right.privilege, right.schema, right.table, right.privilege],
    )


def _grant(role: str, privilege: str, schema: str, table: str | None) -> str:
    where = f"SCHEMA {identifier(schema)}" if table is None else f"{identifier(schema)}.{identifier(table)}"
    return f"GRANT {privilege} ON {where} TO {identifier(role)};"
