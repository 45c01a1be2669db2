"""The SQL that writes events: one or many, with or without a row that stays.

It runs in the application's session, with its search_path, and so names PostgreSQL's own functions and operators with
their schema: another role may have created functions of the same name in a schema of that path.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple
from uuid import UUID

from walrelay.connections import Statement, Steps
from walrelay.identifiers import identifier, qualified_name

ROLES = ("id", "aggregate_type", "aggregate_id", "type", "payload", "headers", "topic", "tenant_id")
TYPES = {"id": "uuid", "payload": "jsonb", "headers": "jsonb"}  # the others are text

_BUILT_IN = frozenset({"uuid", "text", "varchar", "character varying", "bigint", "int8", "integer", "int4", "numeric"})

_AT_ONCE = 1000  # rows of one statement

_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


class Written(NamedTuple):
    """An event as text, role by role; of a payload for bytea the hexadecimal digits."""

    id: UUID
    values: Mapping[str, str | None]


class OutboxTable:
    """Writes rows into the table. If `delete` is set, each row is deleted at once: the WAL has it, and there is nothing
    to clean up.
    """

    def __init__(
        self, table: str, columns: Mapping[str, str | None], types: Mapping[str, str], *, delete: bool
    ) -> None:
        """`columns` and `types` by role; a role without a column is left out."""
        self.name = qualified_name(table)
        self.roles = {role: column for role, column in columns.items() if column is not None}
        self.columns = list(self.roles.values())
        self.types = types
        self._delete = delete
        self._quoted = quoted = ".".join(map(identifier, self.name))
        listed = ", ".join(identifier(column) for column in self.columns)
        values = ", ".join(self._cast(role, f"CAST(:{role} AS text)") for role in self.roles)
        fields = ", ".join(f"{role} text" for role in self.roles)
        selected = ", ".join(self._cast(role, f"r.{role}") for role in self.roles)
        self._insert = f"INSERT INTO {quoted} ({listed}) VALUES ({values})"
        self._insert_many = (
            f"INSERT INTO {quoted} ({listed}) SELECT {selected}"
            f" FROM ROWS FROM (pg_catalog.json_to_recordset(CAST(CAST(:rows AS text) AS json)) AS ({fields}))"
            " WITH ORDINALITY AS r ORDER BY r.ordinality"
        )
        id_, kind = identifier(self.roles["id"]), types.get("id", "text")
        equal = (
            "OPERATOR(pg_catalog.=)" if kind in _BUILT_IN else "="
        )  # a type of an extension has an operator of its own
        self._deletion = f"DELETE FROM {quoted} WHERE {id_} {equal} CAST(CAST(:id AS text) AS {kind})"
        self._deletion_many = (
            f"DELETE FROM {quoted} WHERE {id_} {equal} ANY"
            f" (SELECT CAST(r.id AS {kind}) FROM pg_catalog.json_array_elements_text(CAST(CAST(:ids AS text) AS json))"
            " AS r (id))"
        )

    def one(self, event: Written) -> Steps[None]:
        yield Statement(self._insert, {role: event.values[role] for role in self.roles})
        if self._delete:
            yield Statement(self._deletion, {"id": str(event.id)})

    def many(self, events: Sequence[Written]) -> Steps[None]:
        for batch in _batches(events):
            yield Statement(self._insert_many, {"rows": json.dumps([dict(event.values) for event in batch])})
            if self._delete:
                yield Statement(self._deletion_many, {"ids": json.dumps([str(event.id) for event in batch])})

    def has_policies(self) -> Steps[bool]:
        """Whether row level security applies to the role: PostgreSQL refuses COPY then."""
        text = "SELECT pg_catalog.row_security_active(CAST(:name AS text))"
        ((active,),) = yield Statement(text, {"name": self._quoted}, answers=True)
        return bool(active)

    def lines(self, events: Iterable[Written]) -> Iterator[str]:
        """The events in COPY's text format."""
        for event in events:
            yield "\t".join(self._field(role, event.values[role]) for role in self.roles) + "\n"

    def _field(self, role: str, value: str | None) -> str:
        if value is None:
            return "\\N"
        return f"\\\\x{value}" if self.types.get(role) == "bytea" else value.translate(_ESCAPES)

    def _cast(self, role: str, expression: str) -> str:
        kind = self.types.get(role, "text")
        return f"pg_catalog.decode({expression}, 'hex')" if kind == "bytea" else f"CAST({expression} AS {kind})"


class LogicalMessages:
    """Writes no row at all: the event is a message in the WAL, of that prefix."""

    # The server sends the content in the encoding of the database: so it is converted to UTF-8, with a mark in front
    # where the relay could mistake the encoding.
    _IS = "pg_catalog.getdatabaseencoding() OPERATOR(pg_catalog.=)"
    _UTF8 = (
        f"CASE WHEN {_IS} 'UTF8' OR {_IS} 'SQL_ASCII' THEN '' ELSE pg_catalog.decode('efbbbf', 'hex') END"
        " OPERATOR(pg_catalog.||) pg_catalog.convert_to({},"
        f" CASE WHEN {_IS} 'SQL_ASCII' THEN 'SQL_ASCII' ELSE 'UTF8' END)"
    )
    _EMIT = "pg_catalog.pg_logical_emit_message(true, CAST(:prefix AS text), " + _UTF8 + ")"
    # No column checks the content, and invalid JSON would stop the relay: so it is cast before it is sent.
    _IS_JSONB = " WHERE CAST({} AS jsonb) IS NOT NULL"
    _ONE = "SELECT " + _EMIT.format("CAST(:content AS text)") + _IS_JSONB.format("CAST(:content AS text)")
    _MANY = (
        "SELECT pg_catalog.count(" + _EMIT.format("ordered.content") + ") FROM"
        " (SELECT r.content FROM pg_catalog.json_array_elements_text(CAST(CAST(:contents AS text) AS json))"
        " WITH ORDINALITY AS r (content, n) ORDER BY r.n) AS ordered" + _IS_JSONB.format("ordered.content")
    )

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def one(self, event: Written) -> Steps[None]:
        yield Statement(self._ONE, {"prefix": self._prefix, "content": _content(event)})

    def many(self, events: Sequence[Written]) -> Steps[None]:
        for batch in _batches(events):
            contents = json.dumps([_content(event) for event in batch])
            yield Statement(self._MANY, {"prefix": self._prefix, "contents": contents})


def _content(event: Written) -> str:
    """A JSON object with the roles as keys; payload and headers are JSON already."""
    members = []
    for role, value in event.values.items():
        verbatim = value is None or role in ("payload", "headers")
        members.append(f'"{role}": {value or "null" if verbatim else json.dumps(value, ensure_ascii=False)}')
    return "{" + ", ".join(members) + "}"


def _batches(events: Sequence[Written]) -> Iterator[list[Written]]:
    each = iter(events)
    while batch := list(islice(each, _AT_ONCE)):
        yield batch
