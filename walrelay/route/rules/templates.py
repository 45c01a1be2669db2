"""Texts with fields in them: `wallet.{aggregate_type|kebab}`, `{payload.order.id}`, `{header.region|default:eu}`.

A field can go through filters, from left to right. What follows a filter's colon is its argument; in quotes it may hold
`|` and `}` (a quote in it is doubled).
"""

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from walrelay.model import OutboxRecord
from walrelay.route.rules.conditions import compiled, shown
from walrelay.route.rules.fields import Field, Fields, Known, Value

_MEMORY, _LONG = 1_000, 200  # values whose filtered text is remembered: how many, and of how many characters

Filter = Callable[[str | None], str | None]
Render = Callable[[OutboxRecord, Known], str]
"""The text for a record; Missing where a field has none."""

_PIECE = re.compile(
    r"""(?P<text> (?: [^{}] | \{\{ | \}\} )+ )
      | \{ (?P<field> (?: "[^"]*" | [^|{}"] )+ )
           (?P<filters> (?: \| [a-z_]+ (?: : (?: "(?:[^"]|"")*" | [^|{}"]* ) )? )* ) \}""",
    re.VERBOSE,
)
_FILTER = re.compile(r'\|([a-z_]+)(?::("(?:[^"]|"")*"|[^|{}"]*))?')
_HUMPS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_BETWEEN = re.compile(r"[\W_]+")
_WHOLE_NAME = re.compile(r"[^,\[`]*")  # what stands before the assembly or the parameters of a .NET type
_LAST_NAME = re.compile(r"[^.+$:/]*$")


class Missing(Exception):
    """A field of the template has no text."""


class Hole(NamedTuple):
    """A field in a template, and the filters of its value, each with its argument."""

    field: Field
    written: str
    filters: tuple[tuple[str, str | None], ...]


def parse(template: str) -> Iterator[str | Hole]:
    """Literal texts and holes; ValueError for what is no template."""
    at = 0
    while at < len(template):
        match = _PIECE.match(template, at)
        if match is None:
            raise ValueError(
                f"{template!r} is no template, from {template[at : at + 20]!r} on: a field is written {{field}} or"
                " {field|filter:argument}, and a literal brace is doubled"
            )
        at = match.end()
        if match["text"] is not None:
            yield match["text"].replace("{{", "{").replace("}}", "}")
        else:
            filters = tuple((each[1], _argument(each[2])) for each in _FILTER.finditer(match["filters"]))
            for name, argument in filters:
                _filter(name, argument)
            yield Hole(Field.parse(match["field"]), match["field"], filters)


def pattern(template: str, hole: str) -> str:
    """The template with `hole` for each field, as in `wallet.*`."""
    return "".join(part if isinstance(part, str) else hole for part in parse(template))


def fields(template: str) -> list[Field]:
    """The fields that the template names."""
    return [part.field for part in parse(template) if isinstance(part, Hole)]


def renderer(template: str, fields: Fields) -> Render:
    """Renders the template for a record; Missing where a field has no text."""
    parts = [_part(part, fields) for part in parse(template)]
    if len(parts) == 1:
        return parts[0]
    return lambda record, known: "".join([part(record, known) for part in parts])


def _part(part: str | Hole, fields: Fields) -> Render:
    if isinstance(part, str):
        return lambda record, known: part
    read = fields.reader(part.field)
    filters = [_filter(name, argument) for name, argument in part.filters]
    remembered: dict[Value, str] = {}

    def filtered(record: OutboxRecord, known: Known) -> str:
        value = read(record, known)
        found = remembered.get(value)
        if found is None:
            found = value if type(value) is str else None
            for each in filters:
                found = each(found)
            if found is None:
                raise Missing(_why(part, value))
            if len(remembered) >= _MEMORY:
                remembered.clear()
            if type(value) is str and len(value) <= _LONG:
                remembered[value] = found
        return found

    def text(record: OutboxRecord, known: Known) -> str:
        value = read(record, known)
        if type(value) is str:
            return value
        raise Missing(_why(part, value))

    return filtered if filters else text


def _why(hole: Hole, value: Value) -> str:
    last = hole.filters[-1][0] if hole.filters and isinstance(value, str) else ""
    return f"{hole.written} is {shown(value)}" + (f", of which {last} leaves nothing" if last else "")


def _argument(written: str | None) -> str | None:
    if written is not None and written.startswith('"'):
        return written[1:-1].replace('""', '"')
    return written


def _filter(name: str, argument: str | None) -> Filter:
    """ValueError for one that is not known."""
    if name in _PLAIN:
        if argument is not None:
            raise ValueError(f"the filter {name} takes no argument")
        function = _PLAIN[name]
        return lambda text: None if text is None else function(text)
    if name not in ("default", "regex"):
        raise ValueError(f"there is no filter {name!r}; known are {', '.join([*_PLAIN, 'regex', 'default'])}")
    if argument is None:
        raise ValueError(f"the filter {name} needs an argument, as in {{type|{name}:...}}")
    return _default(argument) if name == "default" else _regex(argument)


def _default(instead: str) -> Filter:
    return lambda text: text or instead


def _regex(argument: str) -> Filter:
    """The first group of what the expression finds, or all of it."""
    search = compiled(argument).search

    def found(text: str | None) -> str | None:
        match = None if text is None else search(text)
        return match and match[min(1, match.re.groups)]

    return found


def kebab(text: str) -> str:
    """`OrderLine`, `order_line` and `order line` become `order-line`."""
    return _BETWEEN.sub("-", _HUMPS.sub("-", text)).strip("-").lower()


def short_name(text: str) -> str:
    """The type's own name: `OrderPlaced` of `Acme.Orders.OrderPlaced, Acme, Version=1.0.0.0`."""
    whole = _WHOLE_NAME.match(text)
    last = _LAST_NAME.search(whole[0].strip() if whole else text)
    return last[0] if last else text


_PLAIN: dict[str, Callable[[str], str]] = {"lower": str.lower, "kebab": kebab, "short_name": short_name}
