"""Events: what is refused before a statement is sent, and what their payloads look like as text."""

import dataclasses
import enum
import json
import time
from datetime import UTC, date, datetime
from decimal import Decimal
from types import MappingProxyType
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from walrelay.outbox import Event, Json, Outbox, uuid7
from walrelay.outbox.payload import json_text
from walrelay.outbox.rows import OutboxTable, Written

FIELDS: dict[str, Any] = {"aggregate_type": "order", "aggregate_id": "1", "type": "Placed"}


class Colour(enum.Enum):
    RED = "red"


class Line(BaseModel):
    price: Decimal
    number: int = Field(alias="no")


@dataclasses.dataclass(frozen=True)
class Order:
    at: datetime
    day: date
    id: UUID
    line: Line
    colour: Colour
    extra: Any = None


def test_ids_are_version_7_and_grow_with_time() -> None:
    before = time.time_ns() // 1_000_000
    ids = [uuid7() for _ in range(1000)]
    assert {(each.version, each.variant) for each in ids} == {(7, "specified in RFC 4122")}
    assert len(set(ids)) == 1000
    assert before <= ids[0].int >> 80 <= ids[-1].int >> 80 <= time.time_ns() // 1_000_000
    times = [each.int >> 64 for each in ids]  # milliseconds, version, fraction
    assert times == sorted(times)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"aggregate_type": ""}, "aggregate_type is empty"),
        ({"type": ""}, "type is empty"),
        ({"topic": ""}, "topic is empty"),
        ({"aggregate_id": None}, "aggregate_id is None. If the database makes the key"),
        ({"aggregate_id": "a\0"}, "aggregate_id contains a zero byte"),
        ({"headers": {"position": "1"}}, "header position is reserved: walrelay sets it itself"),
        ({"headers": {"a": 1}}, "header 'a': 1: names and values are text"),
    ],
)
def test_what_no_outbox_would_take_is_refused(changes: dict[str, Any], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        Event(**{**FIELDS, **changes})


def test_payloads_of_all_kinds_as_json() -> None:
    id_ = uuid7()
    order = Order(
        datetime(2026, 1, 2, tzinfo=UTC), date(2026, 1, 2), id_, Line(no=3, price=Decimal("1.50")), Colour.RED
    )
    assert json.loads(json_text(order) or "") == {
        "at": "2026-01-02T00:00:00+00:00",
        "day": "2026-01-02",
        "id": str(id_),
        "line": {"price": "1.50", "no": 3},
        "colour": "red",
        "extra": None,
    }
    assert json_text(Line(no=3, price=Decimal(1))) == '{"price":"1","no":3}'
    assert json_text(Json("[1,  2]")) == "[1,  2]"
    assert json_text("[1]") == '"[1]"'
    assert json_text(MappingProxyType({"ü": 1})) == '{"ü": 1}'
    assert json_text(None) is None


def test_what_json_has_no_word_for_is_refused() -> None:
    with pytest.raises(ValueError, match="Out of range"):
        json_text(float("nan"))
    for payload in (object(), {1, 2}, {"a": b"bytes"}, Order):
        with pytest.raises(TypeError, match="cannot be written as JSON"):
            json_text(payload)


def test_bytes_are_for_a_column_of_bytes() -> None:
    with pytest.raises(ValueError, match=r"the payload is bytes, and the outbox's is jsonb: pass Json\(text\)"):
        Outbox().emit(None, Event(**FIELDS, payload=b"{}"))


def test_roles_that_are_none_are_named() -> None:
    with pytest.raises(ValueError, match="payloads: the roles of columns are id, aggregate_type"):
        Outbox(columns={"payloads": "body"})
    with pytest.raises(ValueError, match="an outbox has a column for payload"):
        Outbox(columns={"payload": None})


@given(st.text(st.characters(exclude_characters="\0", codec="utf-8")))
def test_a_value_survives_the_text_format_of_copy(value: str) -> None:
    table = OutboxTable("t", {"id": "id", "payload": "p"}, {}, delete=False)
    id_ = uuid7()
    (line,) = table.lines([Written(id_, {"id": str(id_), "payload": value})])
    assert line.count("\n") == 1
    assert line.endswith("\n")
    (first, second) = line[:-1].split("\t")
    assert first == str(id_)
    unescaped = second.replace("\\\\", "\0").replace("\\n", "\n").replace("\\t", "\t").replace("\\r", "\r")
    assert unescaped.replace("\0", "\\") == value


@pytest.mark.parametrize("payload", [{"raw": Json("{}")}, [Json("1")], {"a": ({"b": Json("1")},)}])
def test_json_inside_a_payload_is_refused(payload: object) -> None:
    with pytest.raises(TypeError, match="Json is for a whole payload"):
        json_text(payload)
