"""The SQL that writes events: one or many, with or without a row that stays."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple
from uuid import UUID

from walrelay.connections import Statement, Steps
from walrelay.identifiers import identifier, qualified_name

ROLES = ("id", "aggregate_type", "aggregate_id", "type", "payload", "headers", "topic", "tenant_id")
TYPES = {"id": "uuid", "payload": "jsonb", "headers": "jsonb"}  # the others are text

_AT_ONCE = 1000  # rows of one statement

_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


class Written(NamedTuple):
    """An event as text, role by role; of a payload for bytea the hexadecimal digits."""

    id: UUID
    values: Mapping[str, str | None]


class OutboxTable:
    """Writes rows into the table. With `delete` each is deleted at once: the WAL has it, and none is left to clean."""

    def __init__(
        self, table: str, columns: Mapping[str, str | None], types: Mapping[str, str], *, delete: bool
    ) -> None:
        """`columns` and `types` by role; a role without a column is left out."""
        self.name = qualified_name(table)
        self.roles = {role: column for role, column in columns.items() if column is not None}
        self.columns = list(self.roles.values())
        self.types = types
        self._delete = delete
        quoted = ".".join(map(identifier, self.name))
        listed = ", ".join(identifier(column) for column in self.columns)
        values = ", ".join(self._cast(role, f"CAST(:{role} AS text)") for role in self.roles)
        fields = ", ".join(f"{role} text" for role in self.roles)
        selected = ", ".join(self._cast(role, f"r.{role}") for role in self.roles)
        self._insert = f"INSERT INTO {quoted} ({listed}) VALUES ({values})"
        self._insert_many = (
            f"INSERT INTO {quoted} ({listed}) SELECT {selected}"
            f" FROM ROWS FROM (json_to_recordset(CAST(CAST(:rows AS text) AS json)) AS ({fields})) WITH ORDINALITY AS r"
            " ORDER BY r.ordinality"
        )
        id_, kind = identifier(self.roles["id"]), types.get("id", "text")
        self._deletion = f"DELETE FROM {quoted} WHERE {id_} = CAST(CAST(:id AS text) AS {kind})"
        self._deletion_many = (
            f"DELETE FROM {quoted} WHERE {id_} IN"
            f" (SELECT CAST(r.id AS {kind}) FROM json_array_elements_text(CAST(CAST(:ids AS text) AS json)) AS r (id))"
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
        return f"decode({expression}, 'hex')" if kind == "bytea" else f"CAST({expression} AS {kind})"


class LogicalMessages:
    """Writes no row at all: the event is a message in the WAL, of that prefix."""

    _ONE = "SELECT pg_logical_emit_message(true, CAST(:prefix AS text), CAST(:content AS text))"
    _MANY = (
        "SELECT count(pg_logical_emit_message(true, CAST(:prefix AS text), ordered.content)) FROM (SELECT r.content"
        " FROM json_array_elements_text(CAST(CAST(:contents AS text) AS json)) WITH ORDINALITY AS r (content, n)"
        " ORDER BY r.n) AS ordered"
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
