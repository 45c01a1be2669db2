"""A payload of plain JSON as fastavro takes it, by its Avro schema.

Avro has types that JSON has not, and fastavro writes what it does not know as something else, or not at all: a member
without a field would be lost. So each value is checked against the schema here, and named where it does not suit.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal
from math import isfinite
from struct import pack
from typing import Any

from fastavro.schema import parse_schema

Named = dict[str, Any]

_INTEGERS = {"int": 31, "long": 63}
_NUMBERS = {"float": "<f", "double": "<d"}  # as `struct` writes them


def _timestamp(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


_MOMENTS: Mapping[str, Callable[[str], date | datetime | time]] = {
    "date": date.fromisoformat,
    "time-millis": time.fromisoformat,
    "time-micros": time.fromisoformat,
    "timestamp-millis": _timestamp,
    "timestamp-micros": _timestamp,
    "local-timestamp-millis": datetime.fromisoformat,
    "local-timestamp-micros": datetime.fromisoformat,
}


class AvroSchema:
    """A schema with those that it refers to; `referred` come first."""

    def __init__(self, schema: Any, referred: list[Any]) -> None:
        """ValueError for what is no schema of Avro."""
        self._named: Named = {}
        try:
            for each in referred:
                parse_schema(each, self._named)
            self._schema = parse_schema(schema, self._named)
        except Exception as cause:  # whatever it finds: fastavro has no one error for a schema that is none
            raise ValueError(f"the schema is none of Avro's: {cause}") from None

    def datum(self, value: Any) -> Any:
        """For a value as JSON has it, with fractions as Decimal. ValueError says which part does not suit."""
        return self._datum(self._schema, value, "payload")

    def _datum(self, schema: Any, value: Any, path: str) -> Any:
        if isinstance(schema, list):
            return self._of_union(schema, value, path)
        kind = schema if isinstance(schema, str) else schema["type"]
        if not isinstance(kind, str):
            return self._datum(kind, value, path)
        match kind:
            case "record" | "error":
                return self._record(schema, value, path)
            case "array" if isinstance(value, list):
                return [self._datum(schema["items"], item, f"{path}.{at}") for at, item in enumerate(value)]
            case "map" if isinstance(value, dict):
                return {name: self._datum(schema["values"], item, f"{path}.{name}") for name, item in value.items()}
            case "enum" if isinstance(value, str) and value in schema["symbols"]:
                return value
            case "array" | "map" | "enum":
                raise ValueError(f"{path} is no {kind} of the schema")
        if kind in self._named:
            return self._datum(self._named[kind], value, path)
        return _plain(kind, {} if isinstance(schema, str) else schema, value, path)

    def _record(self, schema: Any, value: Any, path: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise ValueError(f"{path} is no object, as the record {schema['name']} is")
        fields = {field["name"]: field for field in schema["fields"]}
        for name in value:
            if name not in fields:
                raise ValueError(f"{path}.{name} is not in the schema")
        for name, field in fields.items():
            if name not in value and "default" not in field:
                raise ValueError(f"{path}.{name} is missing, and has no default in the schema")
        return {name: self._datum(fields[name]["type"], member, f"{path}.{name}") for name, member in value.items()}

    def _of_union(self, branches: list[Any], value: Any, path: str) -> Any:
        """As the first branch that it suits; what is wrong with it, if there is but one besides null."""
        faults = []
        for branch in branches:
            try:
                return self._datum(branch, value, path)
            except ValueError as fault:
                if branch != "null":
                    faults.append(fault)
        if len(faults) == 1:
            raise faults[0]
        raise ValueError(f"{path} suits no branch of its union in the schema")


def _plain(kind: str, schema: Mapping[str, Any], value: Any, path: str) -> Any:
    logical = schema.get("logicalType", "")
    found: Any = None
    if kind == "null" and value is None:
        return None
    if kind == "boolean" and isinstance(value, bool):
        return value
    if kind == "string" and isinstance(value, str):
        return value
    if kind in ("bytes", "fixed"):
        found = _decimal(schema, value) if logical == "decimal" else _bytes(schema, value)
    elif kind in _INTEGERS and logical in _MOMENTS and isinstance(value, str):
        found = _moment(logical, value)
    elif isinstance(value, int) and not isinstance(value, bool) and kind in _INTEGERS:
        bits = _INTEGERS[kind]
        found = value if -(2**bits) <= value < 2**bits else None
    elif isinstance(value, int | Decimal) and not isinstance(value, bool) and kind in _NUMBERS:
        found = _float(kind, value)
    if found is None:
        raise ValueError(f"{path} is no {logical or kind}")
    return found


def _moment(logical: str, text: str) -> date | datetime | time | None:
    """None also for a zone where the type has none: it would be lost."""
    try:
        found = _MOMENTS[logical](text)
    except ValueError:
        return None
    zoned = isinstance(found, datetime | time) and found.tzinfo is not None
    return None if zoned and not logical.startswith("timestamp") else found


def _float(kind: str, value: int | Decimal) -> float | None:
    """None for what would be infinite, or is no number."""
    try:
        found = float(value)
        pack(_NUMBERS[kind], found)
    except OverflowError:
        return None
    return found if isfinite(found) else None


def _bytes(schema: Mapping[str, Any], value: Any) -> bytes | None:
    """As Avro writes bytes in JSON: a character, up to U+00FF, for each."""
    try:
        found: bytes = value.encode("latin-1")
    except (AttributeError, UnicodeEncodeError):
        return None
    return found if len(found) == schema.get("size", len(found)) else None


def _decimal(schema: Mapping[str, Any], value: Any) -> Decimal | None:
    """A number, or a text that is one, if the schema has room for all its digits."""
    if isinstance(value, bool) or not isinstance(value, int | Decimal | str):
        return None
    try:
        found = Decimal(value)
    except ArithmeticError:
        return None
    _, digits, exponent = found.as_tuple()
    if not isinstance(exponent, int):
        return None  # NaN or infinite
    scale = schema.get("scale", 0)
    return found if -exponent <= scale and len(digits) + exponent + scale <= schema["precision"] else None
