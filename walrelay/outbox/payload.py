"""Payloads as JSON text, as PostgreSQL will print it."""

import json
import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time
from decimal import Decimal, InvalidOperation
from enum import Enum
from typing import NoReturn
from uuid import UUID

from walrelay.outbox.events import Json

_EXPONENT = re.compile(rb"\d[eE][+-]?\d")
_BEFORE_POINT, _BEHIND_POINT = 131_072, 16_383


def json_text(payload: object) -> str | None:
    """The text of a payload, None for None. TypeError for what JSON cannot express, ValueError for NaN and infinity.

    Times are ISO 8601; UUIDs and decimals are strings, as pydantic has them: some readers lose digits of a number.
    """
    if payload is None or isinstance(payload, Json):
        return payload
    if (dump := getattr(payload, "model_dump_json", None)) is not None:
        return str(dump(by_alias=True))
    if (serializer := getattr(type(payload), "__pydantic_serializer__", None)) is not None:  # a pydantic dataclass
        return str(serializer.to_json(payload, by_alias=True).decode())
    _refuse_inner_json(payload)
    return json.dumps(payload, default=_plain, ensure_ascii=False, allow_nan=False)


def refuse_other_than_json(what: str, text: str) -> None:
    """ValueError unless `text` is one JSON value, which it is in the middle of others. The rest, such as how large a
    number may be, the server decides.
    """
    try:
        json.loads(text, parse_int=str, parse_float=str, parse_constant=_no_constant)
    except (ValueError, RecursionError) as cause:
        raise ValueError(f"event {what}: the payload is not JSON: {cause}") from cause


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"it has {name}")


def most_bytes(text: bytes) -> int:
    """An upper bound of what `text` takes as PostgreSQL prints jsonb: a blank behind each colon and comma, and every
    digit of a number. ValueError for a number that PostgreSQL has no place for.
    """
    digits = 0

    def counted(number: str) -> None:
        nonlocal digits
        digits += _digits(number) - len(number)

    if _EXPONENT.search(text):  # digits are counted, not expanded: three bytes of exponent can stand for a gigabyte
        json.loads(text, parse_float=counted, parse_int=_nothing)
    return len(text) + text.count(b",") + text.count(b":") + max(digits, 0)


def _digits(number: str) -> int:
    """How many characters it has without an exponent."""
    try:
        sign, digits, exponent = Decimal(number).as_tuple()
    except InvalidOperation:  # more than Python has room for
        sign, digits, exponent = 0, (1,), _BEFORE_POINT
    assert isinstance(exponent, int)
    before = max(len(digits) + exponent, 1) if any(digits) else 1
    behind = max(-exponent, 0)
    if before > _BEFORE_POINT or behind > _BEHIND_POINT:
        raise ValueError(
            f"the number {number[:40]} is none of PostgreSQL's, which have {_BEFORE_POINT:,} digits before the point"
            f" and {_BEHIND_POINT:,} behind it: send it as text"
        )
    return sign + before + bool(behind) + behind


def _nothing(_: str) -> None:
    """Does nothing: integers are printed as they are."""


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
    raise TypeError(f"{type(value).__qualname__} cannot be written as JSON: {value!r}")


def _refuse_inner_json(value: object) -> None:
    """Inside a payload it would silently become a string."""
    if isinstance(value, Json):
        raise TypeError("Json is for a whole payload: inside one pass json.loads(text), or make all of it Json")
    if isinstance(value, Mapping):
        for each in value.values():
            _refuse_inner_json(each)
    elif isinstance(value, list | tuple):
        for each in value:
            _refuse_inner_json(each)
