"""Values with schemas as Kafka Connect has them, and the bytes that its converters make of them."""

import decimal
import json
import re
from base64 import b64encode
from collections.abc import Callable, Mapping
from datetime import date
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
    """`type`: as JsonConverter calls it. `fields`: of a struct. `items`: of an array. `values`: of a map of texts."""

    type: str
    optional: bool = True
    name: str | None = None
    version: int | None = None
    default: Value = None
    fields: tuple[tuple[str, "Schema"], ...] = ()
    items: "Schema | None" = None
    doc: str | None = None
    parameters: tuple[tuple[str, str], ...] = ()
    values: "Schema | None" = None


Converter = Callable[[Schema | None, Value], bytes | None]
"""A value, and its schema; without either there is no value at all, which is a tombstone."""

_ESCAPED = re.compile('["\\\\\x00-\x1f\U00010000-\U0010ffff]')
_ESCAPED_IN_TEXT = re.compile('["\\\\\x00-\x1f]')
_SHORT = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}


def quoted(text: str) -> str:
    """As Jackson writes a text: beyond the Basic Multilingual Plane it escapes both halves."""
    return f'"{_ESCAPED.sub(_escape, text)}"'


def json_of(texts: Mapping[str, str | None]) -> str:
    """An object as Jackson makes a text of it, not bytes: there it escapes less."""
    members = (
        f"{_quoted_text(key)}:{'null' if value is None else _quoted_text(value)}" for key, value in texts.items()
    )
    return f"{{{','.join(members)}}}"


def _quoted_text(text: str) -> str:
    return f'"{_ESCAPED_IN_TEXT.sub(_escape, text)}"'


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


_ERA = 146_097  # days of 400 years
_EPOCH = date(1970, 1, 1).toordinal()
_DAY = 86_400_000  # milliseconds


def iso_day(days: int) -> str:
    """The day that many days after 1970-01-01, as java.time prints it."""
    era, rest = divmod(days + _EPOCH - 1, _ERA)  # Python knows the years 1 to 9999 only
    day = date.fromordinal(rest + 1)
    year = day.year + era * 400
    return f"{'-' if year < 0 else '+' if year > 9999 else ''}{abs(year):04}-{day:%m-%d}"


def converter(name: ConverterName) -> Converter:
    """StringConverter, SimpleHeaderConverter, JsonConverter without and with schemas, or ByteArrayConverter."""
    return _CONVERTERS[name]


def prints(schema: Schema) -> bool:
    """Whether StringConverter makes more of such values than the address of a buffer, or Java's own notation."""
    if schema.items is not None:
        return prints(schema.items)
    return schema.type != "struct" and (schema.type != "bytes" or schema.name == DECIMAL) and _is_plain_time(schema)


def _is_plain_time(schema: Schema) -> bool:
    """Or one of Connect's own, which StringConverter prints in the zone of its machine."""
    return schema.name not in _TIMES


DECIMAL = "org.apache.kafka.connect.data.Decimal"
_TIMES = {  # milliseconds in one of the number
    "org.apache.kafka.connect.data.Date": _DAY,
    "org.apache.kafka.connect.data.Time": 1,
    "org.apache.kafka.connect.data.Timestamp": 1,
}


def _string(schema: Schema | None, value: Value) -> bytes | None:
    if isinstance(value, str):  # most are
        return value.encode()
    return None if value is None else _java(value).encode()


def _java(value: Value) -> str:
    """As toString prints it."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case tuple():
            return f"[{', '.join(map(_java, value))}]"
        case Mapping():
            return f"{{{', '.join(f'{key}={_java(each)}' for key, each in value.items())}}}"
    return str(value)


def _simple(schema: Schema | None, value: Value) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes):
        return b64encode(value)
    return _nested(schema, value).encode()


def _nested(schema: Schema | None, value: Value) -> str:
    """As Values.convertToString prints it in a list, a map or a struct."""
    match value:
        case None:
            return "null"
        case Number() | Decimal():
            return value
        case str():
            escaped = value.replace("\\", "\\\\").replace('"', '\\"')
            return f'"{escaped}"'
        case bytes():
            return f'"{b64encode(value).decode()}"'
        case bool():
            return str(value).lower()
        case int():
            unit = _TIMES.get(schema.name or "") if schema is not None else None
            return str(value) if unit is None else _moment(value * unit)
        case tuple():
            items = None if schema is None else schema.items
            return f"[{','.join(_nested(items, each) for each in value)}]"
    fields = dict(() if schema is None else schema.fields)
    return f"{{{','.join(f'{_nested(None, name)}:{_nested(fields.get(name), each)}' for name, each in value.items())}}}"


def _moment(milliseconds: int) -> str:
    """As Values prints a Date: only the time where the day is 1970-01-01 or before, only the day at midnight."""
    days, of_day = divmod(milliseconds, _DAY)
    day = iso_day(days).removeprefix("+")
    if days >= 1 and not of_day:
        return day
    seconds, fraction = divmod(of_day, 1000)
    time = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{fraction:03}Z"
    return f"{day}T{time}" if days >= 1 else time


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
            if schema is not None and schema.type == "map":
                return f"{{{','.join(f'{quoted(key)}:{_text(None, each)}' for key, each in value.items())}}}"
            fields = () if schema is None else schema.fields
            return f"{{{','.join(f'{quoted(name)}:{_text(of, value.get(name))}' for name, of in fields)}}}"


@lru_cache(10_000)
def _described(schema: Schema, field: str | None = None) -> str:
    members = [f'"type":{quoted(schema.type)}']
    if schema.type == "struct":
        members.append(f'"fields":[{",".join(_described(of, name) for name, of in schema.fields)}]')
    if schema.items is not None:
        members.append(f'"items":{_described(schema.items)}')
    if schema.values is not None:
        members.append(f'"keys":{_described(Schema("string", optional=False))},"values":{_described(schema.values)}')
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
    "simple": _simple,
    "json": _json,
    "json_with_schemas": _json_with_schemas,
    "bytes": _bytes,
}
