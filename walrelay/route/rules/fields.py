"""What a rule can name: a role (`type`), a header (`header.region`), a column of the table (`column.tags`), and a path
into the JSON of the payload (`payload.order.id`) or of a column (`column.metadata.user`).

All values are text, because a row has little else: a string as it is, a number as it is written, a truth value as
`true` or `false`. What is NULL, JSON's null, missing, or inside text that is not JSON has no value; that is no error.
What may have a value that cannot be read is Unevaluable. Each document is parsed once for a record, and only if a rule
gets as far as to look into it.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, NoReturn

from walrelay.errors import AS_IT_WAS_WRITTEN
from walrelay.json_text import NestedTooDeeply, has_half_pair, refuse_depth
from walrelay.model import OutboxRecord
from walrelay.route.router import own_headers

ROLES = ("id", "aggregate_type", "aggregate_id", "type", "payload", "topic", "tenant_id", "created_at")

_KINDS = ("payload", "header", "column")
_STEP = re.compile(r'"([^"]+)"|([^\s".|{}\[\]]+)')
_PLACES = {name: place for place, name in enumerate(OutboxRecord._fields)}


class Field(NamedTuple):
    """`kind`: role, header, payload or column; `name`: of the role, header or column; `path`: steps into its JSON."""

    kind: str
    name: str
    path: tuple[str, ...] = ()

    @staticmethod
    def parse(text: str) -> "Field":
        """ValueError for what names nothing."""
        if text in ROLES:
            return Field("role", text)
        kind, dot, rest = text.partition(".")
        if kind not in _KINDS or not dot:
            raise ValueError(
                f"{text!r} names nothing: write {', '.join(ROLES)}, header.NAME, column.NAME or payload.PATH"
            )
        if kind == "header":
            if not rest:
                raise ValueError(f"{text!r} names no header, as header.region does")
            return Field(kind, rest)  # whole, because names of headers have dots, and headers no depth
        steps = parse_path(rest)
        return Field("payload", "payload", steps) if kind == "payload" else Field("column", steps[0], steps[1:])


class Unevaluable(Exception):
    """Neither yes nor no: a value may be there and cannot be read. Says why without showing it; `hint`: the way on."""

    hint = (
        "Let its writer send such an event in another form, or a rule of `routes` before this one take it without that"
        f" field. {AS_IT_WAS_WRITTEN}"
    )


class Compound:
    """An object or a list of JSON: it exists, may hold tags, and equals no text."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


Value = str | Compound | None
Known = list[Any]  # what was read for one record so far, by slot
Reader = Callable[[OutboxRecord, Known], Value]


def parse_path(text: str) -> tuple[str, ...]:
    """The steps of `a.b."c.d".0`: names of members, and numbers of items; ValueError for what is no path."""
    steps, at = [], 0
    while True:
        match = _STEP.match(text, at)
        if match is None:
            raise ValueError(f'{text!r} is no path: write names with dots between them, as in order."item.id".0')
        steps.append(match[1] or match[2])
        at = match.end()
        if at == len(text):
            return tuple(steps)
        if text[at] != ".":
            raise ValueError(f"{text!r} is no path: there is {text[at]!r} where a dot or the end should be")
        at += 1


class Fields:
    """Gives out the readers of fields; readers of the same field share what they have read.

    `roles`: which role a column has, by column.
    """

    def __init__(self, roles: Mapping[str, str]) -> None:
        self._roles = roles
        self._slots: list[object] = []

    def known(self) -> Known:
        """Nothing yet."""
        return [_UNREAD] * len(self._slots)

    def reader(self, field: Field) -> Reader:
        """The field's value of a record."""
        kind, name, path = self.settled(field)
        if kind == "header":
            return self._header(name)
        raw = _raw(_PLACES[name]) if kind == "role" else _column(name)
        return self._inside(Field(kind, name), raw, path) if path else raw

    def settled(self, field: Field) -> Field:
        """The field as a role, if its column has one."""
        if field.kind == "payload":
            return Field("role", "payload", field.path)
        if field.kind == "column" and field.name in self._roles:
            return Field("role", self._roles[field.name], field.path)
        return field

    def own_headers(self) -> Callable[[OutboxRecord, Known], list[tuple[str, bytes | None]]]:
        """The row's own headers; Unroutable where the column holds none."""
        slot = self._slot("headers")

        def read(record: OutboxRecord, known: Known) -> list[tuple[str, bytes | None]]:
            found: list[tuple[str, bytes | None]] = known[slot]
            if found is _UNREAD:
                found = known[slot] = own_headers(record)
            return found

        return read

    def _slot(self, of: object) -> int:
        if of not in self._slots:
            self._slots.append(of)
        return self._slots.index(of)

    def _header(self, name: str) -> Reader:
        headers = self.own_headers()

        def read(record: OutboxRecord, known: Known) -> Value:
            """The last one, as Kafka's clients have it."""
            for each, value in reversed(headers(record, known)):
                if each == name:
                    return None if value is None else value.decode("utf-8", "surrogateescape")
            return None

        return read

    def _inside(self, document: Field, raw: Reader, path: tuple[str, ...]) -> Reader:
        """One function without calls of others, as far as it can be: it is run for each record and rule."""
        slot, first, rest = self._slot(document), path[0], path[1:]
        name = document.name if document.kind == "role" else f"column.{document.name}"

        def read(record: OutboxRecord, known: Known) -> Value:
            value = known[slot]
            if value is _UNREAD:
                value = known[slot] = _document(name, raw(record, known))
            value = value.get(first) if type(value) is dict else _item(value, first)
            for step in rest:
                value = value.get(step) if type(value) is dict else _item(value, step)
            if type(value) is not str:
                return _as_value(value)
            if not value.isascii() and has_half_pair(raw(record, known), value):  # type: ignore[arg-type]
                raise Unevaluable(f"{name}.{'.'.join(path)} holds half of a surrogate pair, which is no text")
            return value

        return read


def _document(name: str, text: Value) -> Any:
    try:
        return parsed(text) if type(text) is str else None
    except NestedTooDeeply as why:
        raise Unevaluable(f"{name} cannot be read: {why}") from None


_UNREAD = object()


def named(fields: Iterable[Field]) -> tuple[set[str], list[str]]:
    """The roles and the columns that the fields name, each once."""
    roles: set[str] = set()
    columns: dict[str, None] = {}
    for kind, name, _ in fields:
        if kind == "column":
            columns[name] = None
        else:
            roles.add("headers" if kind == "header" else name)
    return roles, list(columns)


def _item(value: Any, step: str) -> Any:
    """The item of that number; None where there is none."""
    return value[int(step)] if type(value) is list and step.isdecimal() and int(step) < len(value) else None


def _as_value(value: Any) -> Value:
    match value:
        case None | str():
            return value
        case bool():
            return "true" if value else "false"
        case _:
            return Compound(value)


def _raw(place: int) -> Reader:
    if OutboxRecord._fields[place] != "payload":
        return lambda record, known: record[place]  # type: ignore[return-value]

    def read(record: OutboxRecord, known: Known) -> Value:
        return None if record.payload is None else record.payload.decode("utf-8", "surrogateescape")

    return read


def _column(name: str) -> Reader:
    """A logical message has no columns but the roles."""
    return lambda record, known: record.columns.get(name)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")  # Python's decoder accepts it, and a consumer's would not


# Numbers keep their digits.
_decoder = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=_no_constant)
_scan: Callable[[str, int], tuple[Any, int]] = _decoder.scan_once  # type: ignore[attr-defined]


def parsed(text: str) -> Any:
    """The value of a JSON text; None for what is not JSON. NestedTooDeeply for what is nested deeper than is read."""
    try:
        refuse_depth(text)
        value, end = _scan(text, 0)
    except StopIteration:
        return parsed(stripped) if (stripped := text.lstrip(" \t\r\n")) and stripped != text else None
    except NestedTooDeeply:
        raise
    except ValueError:
        return None
    except RecursionError:
        raise NestedTooDeeply from None
    return value if end == len(text) or not text[end:].strip(" \t\r\n") else None
