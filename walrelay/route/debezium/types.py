"""What Debezium's connector makes of PostgreSQL's types, in each of its modes. Not of: boxes and other shapes, pg_lsn,
composite types and the like, which it leaves out; name, and lists of bits, of which it makes NULL.
"""

import decimal
import re
import struct
from base64 import b64encode, urlsafe_b64encode
from typing import Literal, NamedTuple

from walrelay.route.debezium import times
from walrelay.route.debezium.connect import DECIMAL, Decimal, Schema, Value, java_double, java_number, json_of
from walrelay.route.debezium.literals import items, pairs, told
from walrelay.route.debezium.times import IntervalMode, Reading, TimeMode

DecimalMode = Literal["precise", "string", "double"]
BinaryMode = Literal["bytes", "base64", "base64-url-safe", "hex"]
HstoreMode = Literal["json", "map"]


class Modes(NamedTuple):
    """The connector's `decimal.handling.mode`, `time.precision.mode`, `binary.handling.mode`, `interval.handling.mode`,
    `hstore.handling.mode` and `money.fraction.digits`.
    """

    decimals: DecimalMode = "precise"
    times: TimeMode = "adaptive"
    binaries: BinaryMode = "bytes"
    intervals: IntervalMode = "numeric"
    hstores: HstoreMode = "json"
    money_digits: int = 2


class CatalogColumn(NamedTuple):
    """A column of the catalog. `type_oid`, `modifier` (atttypmod): below all domains. `default`: its expression, as
    pg_get_expr prints it. `item_oid`: the type of a list's items, or 0. `type_name`: of the items, or of the type.
    `labels`: of an enum.
    """

    name: str
    type_oid: int
    modifier: int = -1
    not_null: bool = False
    default: str | None = None
    is_domain: bool = False
    item_oid: int = 0
    type_name: str = ""
    labels: tuple[str, ...] | None = None


SUPPORTED = (
    "a text, uuid, json, xml, bytea, boolean, number, money, date, time, interval, bit string, network address, range,"
    " point, tsvector, enum, citext, hstore or ltree, or a list or a domain of most of them"
)

BYTEA, NUMERIC = 17, 1700
_JSON = "io.debezium.data.Json"
_TEXTS = {
    **dict.fromkeys((25, 1043, 1042, 18)),  # text, varchar, char, "char"
    **dict.fromkeys((869, 650, 829, 774)),  # inet, cidr, macaddr, macaddr8
    **dict.fromkeys((3904, 3906, 3908, 3910, 3912, 3926)),  # ranges
    2950: "io.debezium.data.Uuid",
    114: _JSON,
    3802: _JSON,
    142: "io.debezium.data.Xml",
    3614: "io.debezium.data.Tsvector",
}
_TEXTS_OF_EXTENSIONS = {"citext": None, "ltree": "io.debezium.data.Ltree"}
_INTEGERS = {21: "int16", 23: "int32", 20: "int64", 26: "int64"}
_TIMES = (times.DATE, times.TIME, times.TIMESTAMP, times.TIMESTAMPTZ, times.TIMETZ)
_FIRST_OF_USERS = 16384
_NOT_IN_LISTS = {19, 142, 600, 790, 1186, 1560, 1562}
_NEVER_NULL = {"io.debezium.data.Enum", "io.debezium.data.Tsvector", "io.debezium.data.Ltree"}
_EXACT = decimal.Context(prec=200_000, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)
_MONEY = re.compile(r"(-?)\$?([\d,]+(?:\.\d+)?)", re.ASCII)
_POINT = re.compile(r"\(([^,]+),([^,]+)\)")


def reading(column: CatalogColumn, modes: Modes) -> Reading | None:
    """None for a type that is not in SUPPORTED. The schema says nothing about NULL and the default."""
    if column.is_domain and (column.item_oid or column.type_oid >= _FIRST_OF_USERS):
        return None  # was not compared; one of an enum keeps Debezium from starting at all
    if column.item_oid:
        return _list(column, modes)
    if column.labels is not None:
        allowed = (("allowed", ",".join(column.labels)),)
        return Schema("string", name="io.debezium.data.Enum", version=1, parameters=allowed), str
    if column.type_oid >= _FIRST_OF_USERS:
        return _of_extension(column.type_name, modes)
    return _built_in(column.type_oid, column.modifier, modes)


def _built_in(oid: int, modifier: int, modes: Modes) -> Reading | None:
    if oid in _TEXTS:
        return _text(_TEXTS[oid]), str
    if oid in _INTEGERS:
        return Schema(_INTEGERS[oid]), int
    if oid in _TIMES:
        return times.time_reading(oid, modifier, modes.times)
    match oid:
        case 16:
            return Schema("boolean"), lambda text: text in ("t", "true")
        case 17:
            return _binary(modes.binaries)
        case 600:
            return _POINT_SCHEMA, _point
        case 700:
            return Schema("float"), java_number
        case 701:
            return Schema("double"), lambda text: java_double(float(text))
        case 790:
            return _money(modes)
        case 1186:
            return times.interval_reading(modes.intervals)
        case 1560 | 1562:
            return _bits(modifier)
        case 1700:
            return _numeric(modifier, modes.decimals)
    return None


def _of_extension(name: str, modes: Modes) -> Reading | None:
    if name in _TEXTS_OF_EXTENSIONS:
        return _text(_TEXTS_OF_EXTENSIONS[name]), str
    if name != "hstore":
        return None
    if modes.hstores == "map":
        return Schema("map", values=Schema("string")), pairs
    return _text(_JSON), lambda text: json_of(pairs(text))


def _text(name: str | None) -> Schema:
    return Schema("string", name=name, version=1 if name else None)


def _list(column: CatalogColumn, modes: Modes) -> Reading | None:
    oid = column.item_oid
    found = None if oid in _NOT_IN_LISTS else reading(column._replace(type_oid=oid, item_oid=0), modes)
    if found is None:
        return None
    schema, parse = found
    if schema.name in ("io.debezium.data.Enum", "io.debezium.data.Tsvector"):
        schema = schema._replace(optional=False)

    def item(text: str | None) -> Value:
        if oid == NUMERIC and text in _NO_NUMBERS:
            raise ValueError(f"a list with {text}, of which Debezium makes NULL")
        if text is not None:
            return parse(times.in_list(oid, text))
        if schema.name in _NEVER_NULL:
            raise ValueError("a list with an item that is NULL, of which Debezium makes NULL as a whole")
        return None

    return Schema("array", items=schema), lambda text: tuple(map(item, items(text)))


def _binary(mode: BinaryMode) -> Reading:
    match mode:
        case "bytes":
            return Schema("bytes"), _unhex
        case "hex":
            return Schema("string"), lambda text: text.removeprefix("\\x")
        case "base64":
            return Schema("string"), lambda text: b64encode(_unhex(text)).decode()
    return Schema("string"), lambda text: urlsafe_b64encode(_unhex(text)).decode()


def _unhex(text: str) -> bytes:
    return bytes.fromhex(text.removeprefix("\\x"))


def _bits(length: int) -> Reading:
    if length == 1:
        return Schema("boolean"), _bit
    parameters = (("length", str(length if length > 0 else 2**31 - 1)),)
    return Schema("bytes", name="io.debezium.data.Bits", version=1, parameters=parameters), _little_endian


def _bit(text: str) -> bool:
    if text not in ("0", "1"):
        raise ValueError(f"{told(text)} is no bit")
    return text == "1"


def _little_endian(text: str) -> bytes:
    """With as few bytes as hold the bits that are set."""
    number = int(text or "0", 2)
    return number.to_bytes((number.bit_length() + 7) // 8, "little")


def _numeric(modifier: int, mode: DecimalMode) -> Reading | None:
    """Scales below zero, which PostgreSQL 15 and later know, were not compared."""
    precision, scale = (modifier - 4) >> 16 & 0xFFFF, (modifier - 4) & 0x7FF
    if modifier >= 0 and scale > 1000:
        return None
    if mode == "double":
        return Schema("double"), lambda text: java_double(float(text))
    if mode == "string":
        return Schema("string"), lambda text: _decimal_text(text, None if modifier < 0 else scale)
    if modifier < 0:
        fields = (("scale", Schema("int32", optional=False)), ("value", Schema("bytes", optional=False)))
        named = Schema("struct", name="io.debezium.data.VariableScaleDecimal", version=1, fields=fields)
        return named._replace(doc="Variable scaled decimal"), _of_any_scale
    parameters = (("scale", str(scale)), ("connect.decimal.precision", str(precision)))
    return Schema("bytes", name=DECIMAL, version=1, parameters=parameters), lambda text: Decimal(_scaled(text, scale))


_NO_NUMBERS = {"NaN": "NAN", "Infinity": "POSITIVE_INFINITY", "-Infinity": "NEGATIVE_INFINITY"}


def _decimal_text(text: str, scale: int | None) -> str:
    if text in _NO_NUMBERS:
        return _NO_NUMBERS[text]
    return text if scale is None else f"{_scaled(text, scale):f}"


def _scaled(text: str, scale: int) -> decimal.Decimal:
    """ValueError for NaN and infinity."""
    number = decimal.Decimal(text)
    if not number.is_finite():
        raise ValueError(f"{told(text)} is no decimal number")
    return number.quantize(decimal.Decimal(1).scaleb(-scale), decimal.ROUND_HALF_UP, _EXACT)


def _of_any_scale(text: str) -> Value:
    fraction = text.partition(".")[2].rstrip("0")
    return {"scale": len(fraction), "value": Decimal(_scaled(text, len(fraction))).unscaled()}


def _money(modes: Modes) -> Reading:
    match modes.decimals:
        case "double":
            return Schema("double"), lambda text: java_double(float(_amount(text)))
        case "string":
            return Schema("string"), _amount
    digits = modes.money_digits
    named = Schema("bytes", name=DECIMAL, version=1, parameters=(("scale", str(digits)),))
    return named, lambda text: Decimal(_scaled(_amount(text), digits))


def _amount(text: str) -> str:
    """Without currency and groups; ValueError for what another lc_monetary printed."""
    match = _MONEY.fullmatch(text)
    if match is None:
        raise ValueError(f"{told(text)} is not as the server prints money with lc_monetary C or en_US")
    return match[1] + match[2].replace(",", "")


_POINT_SCHEMA = Schema(
    "struct",
    name="io.debezium.data.geometry.Point",
    version=1,
    fields=(
        ("x", Schema("double", optional=False)),
        ("y", Schema("double", optional=False)),
        ("wkb", Schema("bytes")),
        ("srid", Schema("int32")),
    ),
    doc="Geometry (POINT)",
)


def _point(text: str) -> Value:
    match = _POINT.fullmatch(text)
    if match is None:
        raise ValueError(f"{told(text)} is no point")
    x, y = float(match[1]), float(match[2])
    numbers: dict[str, Value] = {"x": java_double(x), "y": java_double(y)}
    return numbers | {"wkb": struct.pack("<BIdd", 1, 1, x, y), "srid": None}
