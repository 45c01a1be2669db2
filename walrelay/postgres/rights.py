"""The rights that walrelay needs, which of them a role lacks, and the GRANTs that give them.

`NEEDS` is the one list: deploy/grants.sql and its copy in docs/security.md, the doctor's advice and the hints of
commands are made of it.
"""

import re
from collections.abc import Container, Iterable, Iterator
from typing import Any, NamedTuple

import psycopg
from psycopg.pq import TransactionStatus

from walrelay.identifiers import identifier

OWN = "walrelay"  # the schema
OUTBOX = "outbox"  # the table of the settings; all others are in the schema walrelay

REFUSALS = "refusals that are not `stop`"
POSITION = "position.keep: table"
RETENTION = "retention, where no other role cleans up"
MARKS = "outbox.mark_published"
FROM_SLOT = "run --from-slot; to be revoked when it runs"
ADMIN = "walrelay admin"
NO_ROW_STAYS = 'walrelay.emit_and_delete and Outbox(storage="deleted_row")'

_HEAD = "-- The rights of the roles in deploy/roles.sql. To be run by outbox_owner after `walrelay init`.\n"
_ROLES = {
    "relay": "The relay. The stream needs no right to the outbox.",
    "shop": "Writers: a row, by walrelay.emit or by INSERT.",
    "oncall": "On call.",
    "cleaner": "The clean-up by a role of its own: `walrelay cleanup`.",
}


class Right(NamedTuple):
    """A privilege on a table or a column of it, or on a schema where `table` is None; names without quotes."""

    privilege: str
    schema: str
    table: str | None = None
    column: str | None = None


class Need(NamedTuple):
    """`when`: what needs it; empty: everything the role does. `vital`: without it the relay does not begin, or ends
    where it first needs it. `usual`: deploy/grants.sql gives it; otherwise it shows it as a comment.
    """

    role: str
    privileges: tuple[str, ...]
    table: str
    column: str | None = None
    when: str = ""
    vital: bool = True
    usual: bool = True


NEEDS = (
    Need("relay", ("SELECT",), "slots"),
    Need("relay", ("SELECT",), "dead_letters", vital=False),
    Need("relay", ("SELECT", "INSERT", "UPDATE"), "relays", vital=False),
    Need("relay", ("SELECT", "INSERT", "UPDATE"), "activity", vital=False),
    Need("relay", ("INSERT", "UPDATE"), "dead_letters", when=REFUSALS),
    Need("relay", ("SELECT", "INSERT", "UPDATE"), "positions", when=POSITION),
    Need("relay", ("SELECT", "DELETE"), OUTBOX, when=RETENTION, vital=False, usual=False),
    Need("relay", ("SELECT", "UPDATE"), OUTBOX, when=MARKS, vital=False, usual=False),
    Need("relay", ("UPDATE",), "slots", "published_from", when=FROM_SLOT, vital=False, usual=False),
    Need("shop", ("INSERT",), OUTBOX),
    Need("shop", ("SELECT", "DELETE"), OUTBOX, when=NO_ROW_STAYS, usual=False),
    Need("oncall", ("SELECT",), OUTBOX),
    Need("oncall", ("SELECT",), "slots"),
    Need("oncall", ("SELECT",), "positions"),
    Need("oncall", ("SELECT", "INSERT", "UPDATE"), "dead_letters"),
    Need("oncall", ("SELECT", "INSERT", "UPDATE"), "relays"),
    Need("oncall", ("SELECT",), "activity"),
    Need("oncall", ("SELECT", "INSERT", "UPDATE", "DELETE"), "replays"),
    Need("oncall", ("SELECT", "INSERT"), "audit_log", when=ADMIN),
    Need("oncall", ("SELECT", "INSERT", "UPDATE"), "jobs", when=ADMIN),
    Need("cleaner", ("SELECT", "DELETE"), OUTBOX),
    Need("cleaner", ("SELECT",), "slots"),
)


def role_rights(role: str, outbox: tuple[str, str], when: Container[str], *, vital: bool) -> list[Right]:
    """The rights that a role needs for the tasks in `when`, in the order to be granted. `outbox`: schema and table."""
    schemas = [Right("USAGE", schema) for schema in (outbox[0], OWN)]
    needs = [
        each for each in NEEDS if each.role == role and each.vital == vital and (not each.when or each.when in when)
    ]
    return [*schemas, *(right for each in needs for right in _rights(each, outbox))]


def table_rights(table: str) -> list[Right]:
    """What it takes to write a table of the schema walrelay."""
    privileges = dict.fromkeys(privilege for each in NEEDS if each.table == table for privilege in each.privileges)
    return [Right("USAGE", OWN), *(Right(privilege, OWN, table) for privilege in privileges)]


def grants_script() -> str:
    """The text of deploy/grants.sql."""
    lines = [_HEAD, f"GRANT USAGE ON SCHEMA {OWN} TO {', '.join(_ROLES)};"]
    for role, head in _ROLES.items():
        lines += ["", f"-- {head}"]
        for each in NEEDS:
            if each.role == role:
                lines.append(_statement(each))
    return "\n".join(lines) + "\n"


def _rights(need: Need, outbox: tuple[str, str]) -> list[Right]:
    schema, table = outbox if need.table == OUTBOX else (OWN, need.table)
    return [Right(privilege, schema, table, need.column) for privilege in need.privileges]


def _statement(need: Need) -> str:
    table = "public.outbox" if need.table == OUTBOX else f"{OWN}.{need.table}"
    column = f" ({need.column})" if need.column else ""
    grant = f"GRANT {', '.join(need.privileges)}{column} ON {table} TO {need.role};"
    return ("" if need.usual else "-- ") + grant + (f" -- for {need.when}" if need.when else "")


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


class MissingRight(NamedTuple):
    """A right, for people, and the statement that gives it."""

    what: str
    grant: str


def missing_rights(connection: psycopg.Connection[Any], rights: Iterable[Right]) -> list[MissingRight]:
    """The rights that the role lacks, in their order, grouped by table; rights on what does not exist are left
    out. All are asked about in one statement: a relay that starts waits for it.
    """
    asked = [*rights]
    questions = [_question(number, right) for number, right in enumerate(asked)]
    if not questions:
        return []
    query = b" UNION ALL ".join(query for query, _ in questions)
    rows = connection.execute(query, [value for _, values in questions for value in values]).fetchall()
    return grouped(connection, [asked[number] for number in sorted(row[0] for row in rows)])


def grouped(connection: psycopg.Connection[Any], rights: Iterable[Right]) -> list[MissingRight]:
    """All these rights, one entry a table, whether the current role has them or not."""
    found: dict[tuple[str, str | None, str | None], dict[str, None]] = {}
    for right in rights:
        found.setdefault(right[1:], {})[right.privilege] = None
    return [_missing(current_role(connection), list(privileges), *where) for where, privileges in found.items()]


def grant_statements(missing: Iterable[MissingRight]) -> str:
    """In one line, to paste."""
    return " ".join(each.grant for each in missing)


def grants_for_statement(connection: psycopg.Connection[Any], statement: str) -> str:
    """The GRANTs for a statement that was refused; empty if the cause is not a right on a table."""
    return grants_for(connection, _asked(statement))


def grants_for(connection: psycopg.Connection[Any], rights: Iterable[Right]) -> str:
    """The GRANTs for the missing ones of the rights. For use after an error: a failed transaction is rolled back. Empty
    if the server does not say.
    """
    try:
        if connection.info.transaction_status == TransactionStatus.INERROR:
            connection.execute("ROLLBACK")
        return grant_statements(missing_rights(connection, rights))
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


def _question(number: int, right: Right) -> tuple[bytes, list[str]]:
    """A query that returns the number if the right is lacking."""
    select = b"SELECT %d FROM " % number
    if right.table is None:
        query = b"pg_namespace WHERE nspname = %s AND NOT has_schema_privilege(oid, %s)"
        return select + query, [right.schema, right.privilege]
    names, columns = [right.schema, right.table], [right.column] if right.column else []
    has = b"has_column_privilege(c.oid, %s, %s)" if columns else b"has_table_privilege(c.oid, %s)"
    query = b"pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname = %s AND relname = %s AND NOT "
    return select + query + has, [*names, *columns, right.privilege]


def _missing(to: str, privileges: list[str], schema: str, table: str | None, column: str | None) -> MissingRight:
    place = schema if schema == OWN else identifier(schema)
    if table is None:
        return MissingRight(f"use schema {place}", f"GRANT USAGE ON SCHEMA {place} TO {to};")
    place += f".{table if schema == OWN else identifier(table)}"
    what = f"{', '.join(privileges).lower()} {f'{column} ' if column else ''}in {place}"
    of_it = f" ({column})" if column else ""
    return MissingRight(what, f"GRANT {', '.join(privileges)}{of_it} ON {place} TO {to};")


def current_role(connection: psycopg.Connection[Any]) -> str:
    """Quoted."""
    return identifier(connection.info.user)
