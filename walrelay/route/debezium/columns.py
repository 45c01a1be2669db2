"""Columns of PostgreSQL as Debezium reads them, with its default modes for times and binary values."""

import decimal
import re
from collections.abc import Callable
from datetime import date
from typing import NamedTuple

from walrelay.route.debezium.connect import Decimal, Number, Schema, Value, java_double, java_number

_BYTEA = 17
_MAY_BE_TEXT = {25: "text", 1043: "varchar", 1042: "char", 19: "name", 2950: "uuid", 114: "json", 3802: "jsonb"}
_NAMED = {2950: "io.debezium.data.Uuid", 114: "io.debezium.data.Json", 3802: "io.debezium.data.Json"}
_INTEGERS = {21: "int16", 23: "int32", 20: "int64"}
_EXACT = decimal.Context(prec=200_000, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)
_ZERO_UUID = "00000000-0000-0000-0000-000000000000"
_MOMENT = re.compile(
    r"(?:(\d{4,})-(\d\d)-(\d\d))?[ ]?(?:(\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?)?(?:[+]00)?([ ]BC)?", re.ASCII
)
_ERA = 146_097  # days of 400 years
_DAY = 86_400_000_000  # microseconds
_EPOCH = date(1970, 1, 1).toordinal()
_CONSTANT = re.compile(r"(?:'((?:[^']|'')*)'|\(?(-?\d[\d.e+]*)\)?|(true|false))(?:::[a-z][a-z ]*[\w ()]*)?", re.DOTALL)


class CatalogColumn(NamedTuple):
    """A column of the catalog. `modifier`: atttypmod. `default`: its expression, as pg_get_expr prints it."""

    name: str
    type_oid: int
    modifier: int = -1
    not_null: bool = False
    default: str | None = None


class ColumnReader(NamedTuple):
    """`read`: from PostgreSQL's text, which may be NULL; ValueError for a value that has no counterpart."""

    schema: Schema
    read: Callable[[str | None], Value]


SUPPORTED = (
    "text, varchar, char, uuid, json, jsonb, bytea, boolean, integers, floats, numeric, dates, times and timestamps"
)


def column_reader(column: CatalogColumn) -> ColumnReader | None:
    """None for a type that is not in SUPPORTED."""
    found = _type(column)
    if found is None:
        return None
    schema, parse = found
    default = _default(column, schema.type, parse)
    schema = schema._replace(optional=not column.not_null, default=default)
    return ColumnReader(schema, lambda text: default if text is None else parse(text))


def is_text(column: CatalogColumn) -> bool:
    """Whether Debezium reads it as a string without a form of its own."""
    return column.type_oid in _MAY_BE_TEXT


def is_bytes(column: CatalogColumn) -> bool:
    return column.type_oid == _BYTEA


def _type(column: CatalogColumn) -> tuple[Schema, Callable[[str], Value]] | None:
    oid, digits = column.type_oid, 6 if column.modifier < 0 else column.modifier
    if oid in _MAY_BE_TEXT:
        name = _NAMED.get(oid)
        return Schema("string", name=name, version=1 if name else None), str
    if oid in _INTEGERS:
        return Schema(_INTEGERS[oid]), int
    match oid:
        case 17:
            return Schema("bytes"), lambda text: bytes.fromhex(text.removeprefix("\\x"))
        case 16:
            return Schema("boolean"), lambda text: text in ("t", "true")
        case 700:
            return Schema("float"), java_number
        case 701:
            return Schema("double"), lambda text: java_double(float(text))
        case 1700:
            return _numeric(column.modifier)
        case 1082:
            return Schema("int32", name="io.debezium.time.Date", version=1), lambda text: _microseconds(text) // _DAY
        case 1083 if digits <= 3:
            return Schema("int32", name="io.debezium.time.Time", version=1), lambda text: _microseconds(text) // 1000
        case 1083:
            return Schema("int64", name="io.debezium.time.MicroTime", version=1), _microseconds
        case 1114 if digits <= 3:
            named = Schema("int64", name="io.debezium.time.Timestamp", version=1)
            return named, lambda text: _microseconds(text) // 1000
        case 1114:
            return Schema("int64", name="io.debezium.time.MicroTimestamp", version=1), _microseconds
        case 1184:
            named = Schema("string", name="io.debezium.time.ZonedTimestamp", version=1)
            return named, lambda text: _zoned(text, digits)
    return None


def _numeric(modifier: int) -> tuple[Schema, Callable[[str], Value]] | None:
    """Scales below zero, which PostgreSQL 15 and later know, were not compared."""
    if modifier < 0:
        fields = (("scale", Schema("int32", optional=False)), ("value", Schema("bytes", optional=False)))
        named = Schema("struct", name="io.debezium.data.VariableScaleDecimal", version=1, fields=fields)
        return named._replace(doc="Variable scaled decimal"), _of_any_scale
    precision, scale = (modifier - 4) >> 16 & 0xFFFF, (modifier - 4) & 0x7FF
    if scale > 1000:
        return None
    named = Schema("bytes", name="org.apache.kafka.connect.data.Decimal", version=1)
    return named._replace(parameters=(("scale", str(scale)), ("connect.decimal.precision", str(precision)))), (
        lambda text: _decimal(text, scale)
    )


def _decimal(text: str, scale: int) -> Decimal:
    """ValueError for NaN and infinity."""
    number = decimal.Decimal(text)
    if not number.is_finite():
        raise ValueError(f"{text!r} is no decimal number")
    return Decimal(number.quantize(decimal.Decimal(1).scaleb(-scale), context=_EXACT))


def _of_any_scale(text: str) -> Value:
    fraction = text.partition(".")[2].rstrip("0")
    return {"scale": len(fraction), "value": _decimal(text, len(fraction)).unscaled()}


def _microseconds(text: str) -> int:
    """Since 1970-01-01, or since midnight where there is no date."""
    match = _MOMENT.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no moment")
    year, month, day, hour, minute, second, fraction, bc = match.groups()
    days = 0
    if year:
        astronomical = 1 - int(year) if bc else int(year)
        era, rest = divmod(astronomical - 1, 400)  # Python knows the years 1 to 9999 only
        days = date(rest + 1, int(month), int(day)).toordinal() - _EPOCH + era * _ERA
    seconds = int(hour or 0) * 3600 + int(minute or 0) * 60 + int(second or 0)
    return days * _DAY + seconds * 1_000_000 + int((fraction or "").ljust(6, "0"))


def _zoned(text: str, digits: int) -> str:
    """ISO 8601 in UTC, with as many decimals as the type has."""
    match = _MOMENT.fullmatch(text)
    if match is None:
        return text  # infinity
    year, month, day, hour, minute, second, fraction, bc = match.groups()
    printed = f"-{int(year) - 1:04}" if bc and int(year) > 1 else f"{1 - int(year):04}" if bc else year
    decimals = f".{(fraction or '').ljust(6, '0')[:digits]}" if digits else ""
    return f"{'+' if len(printed) > 4 and not bc else ''}{printed}-{month}-{day}T{hour}:{minute}:{second}{decimals}Z"


def _default(column: CatalogColumn, kind: str, parse: Callable[[str], Value]) -> Value:
    """Debezium reads the default of a column as a value, and puts it in the place of NULL."""
    if column.default is None or column.default.startswith("NULL") or kind == "struct":
        return None
    match = _CONSTANT.fullmatch(column.default)
    if match is None:
        return _computed(column, kind, parse)
    text = next(part for part in match.groups() if part is not None)
    try:
        return parse(text.replace("''", "'"))
    except ValueError:
        return None


def _computed(column: CatalogColumn, kind: str, parse: Callable[[str], Value]) -> Value:
    """What stands for a default that is computed, as now() is."""
    match column.type_oid:
        case 2950:
            return _ZERO_UUID
        case 114 | 3802:
            return "{}"
        case 1184:
            return parse("1970-01-01 00:00:00")
        case 1700:
            return parse("0")
    nothing: dict[str, Value] = {"string": "", "boolean": False, "bytes": b""}
    return nothing.get(kind, Number("0.0") if kind in ("float", "double") else 0)
