"""Payloads as JSON text, as PostgreSQL will print it."""

import json
import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from uuid import UUID

from walrelay.outbox.events import Json

_EXPONENT = re.compile(rb"\d[eE][+-]?\d")


def json_text(payload: object) -> str | None:
    """The text of a payload, None for none. TypeError for what JSON has no word for, ValueError for NaN and infinity.

    Times are ISO 8601; UUIDs and decimals are strings, as pydantic has them: some readers lose digits of a number.
    """
    if payload is None or isinstance(payload, Json):
        return payload
    if (dump := getattr(payload, "model_dump_json", None)) is not None:
        return str(dump(by_alias=True))
    if (serializer := getattr(type(payload), "__pydantic_serializer__", None)) is not None:  # a pydantic dataclass
        return str(serializer.to_json(payload, by_alias=True).decode())
    return json.dumps(payload, default=_plain, ensure_ascii=False, allow_nan=False)


def most_bytes(text: bytes) -> int:
    """An upper bound of what `text` takes as PostgreSQL prints jsonb: a blank behind each colon and comma, and every
    digit of a number.
    """
    if _EXPONENT.search(text):
        return len(json.dumps(json.loads(text, parse_float=_digits), ensure_ascii=False).encode())
    return len(text) + text.count(b",") + text.count(b":")


def _digits(number: str) -> str:
    return format(Decimal(number), "f")


def _plain(value: object) -> object:
    if (serializer := getattr(type(value), "__pydantic_serializer__", None)) is not None:
        return serializer.to_python(value, mode="json", by_alias=True)
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: getattr(value, each.name) for each in fields(value)}
    if isinstance(value, UUID | Decimal):
        return str(value)
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__qualname__} is nothing that JSON knows: {value!r}")
