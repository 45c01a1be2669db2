"""Texts with fields in them: `wallet.{aggregate_type|kebab}`, `{payload.order.id}`, `{header.region|default:eu}`.

A field can go through filters, from left to right. What follows a filter's colon is its argument; in quotes it may hold
`|` and `}` (a quote in it is doubled).
"""

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import NamedTuple

from walrelay.model import OutboxRecord
from walrelay.route.rules.conditions import compiled, shown, tags_of
from walrelay.route.rules.fields import Field, Fields, Known, Value

_MEMORY, _LONG = 1_000, 200  # values whose filtered text is remembered: how many, and of how many characters

Filter = Callable[[str | None], str | None]
Render = Callable[[OutboxRecord, Known], str]
"""The text for a record; MissingText where a field has none."""

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
_TIMESTAMP = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(\.\d+)?(Z|[+-]\d\d(?::?\d\d(?::\d\d)?)?)?")
_LAST_NAME = re.compile(r"[^.+$:/]*$")


class MissingText(Exception):
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
    """Renders the template for a record; MissingText where a field has no text."""
    match [*parse(template)]:
        case [str() as text]:
            return lambda record, known: text
        case [Hole() as hole]:
            return _part(hole, fields)
        case [str() as before, Hole() as hole]:
            return _part(hole, fields, before)
    parts = [_part(part, fields) for part in parse(template)]
    return lambda record, known: "".join([part(record, known) for part in parts])


def _part(part: str | Hole, fields: Fields, before: str = "") -> Render:
    """`before`: the text before a hole; what most templates are is then one function."""
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
                raise MissingText(_why(part, value))
            found = before + found
            if len(remembered) >= _MEMORY:
                remembered.clear()
            if type(value) is str and len(value) <= _LONG:
                remembered[value] = found
        return found

    def text(record: OutboxRecord, known: Known) -> str:
        value = read(record, known)
        if type(value) is str:
            return before + value
        raise MissingText(_why(part, value))

    return filtered if filters else text


def _why(hole: Hole, value: Value) -> str:
    """For logs and dead letters: no value of a payload, a header or a column without a role."""
    if not isinstance(value, str):
        return f"{hole.written} is {shown(value)}"
    content = hole.field.kind != "role" or hole.field.name == "payload"
    has = "has a value" if content else f"is {shown(value)}"
    return f"{hole.written} {has}, of which {hole.filters[-1][0]} leaves nothing"


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
    if name not in _WITH_ARGUMENT:
        raise ValueError(f"there is no filter {name!r}; known are {', '.join([*_PLAIN, *_WITH_ARGUMENT])}")
    if argument is None:
        raise ValueError(f"the filter {name} needs an argument, as in {{type|{name}:...}}")
    return _WITH_ARGUMENT[name](argument)


def _default(instead: str) -> Filter:
    return lambda text: text or instead


def _regex(argument: str) -> Filter:
    """The first group of what the expression finds, or all of it."""
    search = compiled(argument)

    def found(text: str | None) -> str | None:
        match = None if text is None else search(text)
        return match and match[min(1, match.re.groups)]

    return found


def _tag(name: str) -> Filter:
    """The value of the tag of that name, in an array or a JSON list; the first by its text, if there are several."""
    if not name:
        raise ValueError("the filter tag needs the name of a tag, as in {column.tags|tag:wallet_id}")
    start = f"{name}="

    def value(text: str | None) -> str | None:
        found = () if text is None else sorted(tag for tag in tags_of(text) if tag.startswith(start))
        return found[0].removeprefix(start) if found else None

    return value


def boolean(text: str) -> str | None:
    """`true` or `false` of a boolean as PostgreSQL or JSON prints it; None for anything else."""
    return {"t": "true", "true": "true", "f": "false", "false": "false"}.get(text)


def utc(text: str) -> str | None:
    """A timestamp as `2026-11-23T02:09:51.5Z`, its fraction as it is written; without a zone it is taken as UTC. None
    for what is none, such as `infinity` and years before Christ.
    """
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        return None
    try:
        moment = datetime.fromisoformat(f"{match[1]} {match[2]}{match[4] or ''}")
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return f"{moment.isoformat()[:19]}{match[3] or ''}Z"


def kebab(text: str) -> str:
    """`OrderLine`, `order_line` and `order line` become `order-line`."""
    return _BETWEEN.sub("-", _HUMPS.sub("-", text)).strip("-").lower()


def short_name(text: str) -> str:
    """The type's own name: `OrderPlaced` of `Acme.Orders.OrderPlaced, Acme, Version=1.0.0.0`."""
    whole = _WHOLE_NAME.match(text)
    last = _LAST_NAME.search(whole[0].strip() if whole else text)
    return last[0] if last else text


_PLAIN: dict[str, Callable[[str], str | None]] = {
    "lower": str.lower,
    "kebab": kebab,
    "short_name": short_name,
    "utc": utc,
    "boolean": boolean,
}
_WITH_ARGUMENT: dict[str, Callable[[str], Filter]] = {"regex": _regex, "tag": _tag, "default": _default}
