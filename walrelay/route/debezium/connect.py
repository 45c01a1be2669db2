"""Values with schemas as Kafka Connect has them, and the bytes that its converters make of them."""

import decimal
import json
import re
from base64 import b64encode
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Literal, NamedTuple

ConverterName = Literal["string", "simple", "json", "json_with_schemas", "bytes"]


class Number(str):
    """A number that is no integer, as Java prints it."""

    __slots__ = ()


class Decimal(str):
    """A number with a fixed count of decimals, as BigDecimal.toString prints it: as Python does."""

    __slots__ = ()

    def unscaled(self) -> bytes:
        """The number without its point, as BigInteger.toByteArray has it."""
        sign, digits, _ = decimal.Decimal(self).as_tuple()
        number = int("".join(map(str, digits))) * (-1 if sign else 1)
        return number.to_bytes((number if number >= 0 else ~number).bit_length() // 8 + 1, signed=True)


Value = bool | int | Number | str | bytes | tuple["Value", ...] | Mapping[str, "Value"] | None


class Schema(NamedTuple):
    """`type`: as JsonConverter calls it. `fields`: of a struct. `items`: of an array."""

    type: str
    optional: bool = True
    name: str | None = None
    version: int | None = None
    default: Value = None
    fields: tuple[tuple[str, "Schema"], ...] = ()
    items: "Schema | None" = None
    doc: str | None = None
    parameters: tuple[tuple[str, str], ...] = ()


Converter = Callable[[Schema | None, Value], bytes | None]
"""A value, and its schema; without either there is no value at all, which is a tombstone."""

_ESCAPED = re.compile('["\\\\\x00-\x1f\U00010000-\U0010ffff]')
_SHORT = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}


def quoted(text: str) -> str:
    """As Jackson writes a text: beyond the Basic Multilingual Plane it escapes both halves."""
    return f'"{_ESCAPED.sub(_escape, text)}"'


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    if character in _SHORT:
        return _SHORT[character]
    halves = character.encode("utf-16-be")
    return "".join(f"\\u{halves[at : at + 2].hex().upper()}" for at in range(0, len(halves), 2))


def java_number(text: str) -> Number:
    """As Double.toString and Float.toString print the number; `text`: its digits as Python or PostgreSQL print it."""
    sign, digits = "-" if text.startswith("-") else "", text.removeprefix("-")
    if not digits[0].isdigit():
        return Number("NaN" if digits.lower() == "nan" else f"{sign}Infinity")
    mantissa, _, exponent = digits.lower().partition("e")
    whole, _, fraction = mantissa.partition(".")
    figures = (whole + fraction).lstrip("0")
    point = len(whole) + int(exponent or 0) - (len(whole + fraction) - len(figures))  # 0.FIGURES times ten to this
    figures = figures.rstrip("0")
    if not figures:
        return Number(f"{sign}0.0")
    if -2 <= point <= 7:
        whole, fraction = figures[: max(point, 0)].ljust(max(point, 0), "0"), "0" * -point + figures[max(point, 0) :]
        return Number(f"{sign}{whole or 0}.{fraction or 0}")
    return Number(f"{sign}{figures[0]}.{figures[1:] or 0}E{point - 1}")


def java_double(value: float) -> Number:
    """Double.toString: at least two digits, the nearest such."""
    two = f"{value:.1e}"
    return java_number(two if float(two) == value else repr(value))


def converter(name: ConverterName) -> Converter:
    """StringConverter, SimpleHeaderConverter, JsonConverter without and with schemas, or ByteArrayConverter."""
    return _CONVERTERS[name]


def _string(schema: Schema | None, value: Value) -> bytes | None:
    return None if value is None else _plain(schema, value).encode()


def _plain(schema: Schema | None, value: Value) -> str:
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, Mapping):
        return _text(schema, value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _json(schema: Schema | None, value: Value) -> bytes | None:
    if schema is None and value is None:
        return None
    return _text(schema, value).encode()


def _json_with_schemas(schema: Schema | None, value: Value) -> bytes | None:
    if schema is None and value is None:
        return None
    described = "null" if schema is None else _described(schema)
    return f'{{"schema":{described},"payload":{_text(schema, value)}}}'.encode()


def _bytes(schema: Schema | None, value: Value) -> bytes | None:
    assert value is None or isinstance(value, bytes)
    return value


def _text(schema: Schema | None, value: Value) -> str:
    match value:
        case None:
            return "null"
        case Number():
            return value if value[-1].isdigit() else quoted(value)
        case Decimal():
            return quoted(b64encode(value.unscaled()).decode())
        case str():
            return quoted(value)
        case bool():
            return str(value).lower()
        case int():
            return str(value)
        case bytes():
            return quoted(b64encode(value).decode())
        case tuple():
            items = None if schema is None else schema.items
            return f"[{','.join(_text(items, each) for each in value)}]"
        case _:
            fields = () if schema is None else schema.fields
            return f"{{{','.join(f'{quoted(name)}:{_text(of, value.get(name))}' for name, of in fields)}}}"


@lru_cache(10_000)
def _described(schema: Schema, field: str | None = None) -> str:
    members = [f'"type":{quoted(schema.type)}']
    if schema.type == "struct":
        members.append(f'"fields":[{",".join(_described(of, name) for name, of in schema.fields)}]')
    if schema.items is not None:
        members.append(f'"items":{_described(schema.items)}')
    members.append(f'"optional":{json.dumps(schema.optional)}')
    if schema.name is not None:
        members.append(f'"name":{quoted(schema.name)}')
    if schema.version is not None:
        members.append(f'"version":{schema.version}')
    if schema.doc is not None:
        members.append(f'"doc":{quoted(schema.doc)}')
    if schema.parameters:
        members.append(
            f'"parameters":{{{",".join(f"{quoted(name)}:{quoted(text)}" for name, text in schema.parameters)}}}'
        )
    if schema.default is not None:
        members.append(f'"default":{_text(schema, schema.default)}')
    if field is not None:
        members.append(f'"field":{quoted(field)}')
    return f"{{{','.join(members)}}}"


_CONVERTERS: Mapping[ConverterName, Converter] = {
    "string": _string,
    "simple": _string,
    "json": _json,
    "json_with_schemas": _json_with_schemas,
    "bytes": _bytes,
}
