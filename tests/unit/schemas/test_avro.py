"""JSON by Avro's schemas: every type that suits, and what does not, named and never quoted."""

import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pytest

from walrelay.schemas.avro import AvroSchema

NAMED = {"type": "enum", "name": "Colour", "symbols": ["red", "blue"]}
MONEY = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}


def datum(schema: Any, text: str) -> Any:
    return AvroSchema(schema, []).datum(json.loads(text, parse_float=Decimal))


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        ("null", "null", None),
        ("boolean", "true", True),
        ("int", "-2147483648", -(2**31)),
        ("long", "9223372036854775807", 2**63 - 1),
        ("double", "1.5", 1.5),
        ("double", "2", 2.0),
        ("string", '"ä"', "ä"),
        ("bytes", '"\\u00ff"', b"\xff"),
        ({"type": "fixed", "name": "F", "size": 2}, '"ab"', b"ab"),
        (MONEY, "12.50", Decimal("12.50")),
        (MONEY, '"12.5"', Decimal("12.5")),
        ({"type": "int", "logicalType": "date"}, '"2026-11-23"', date(2026, 11, 23)),
        ({"type": "int", "logicalType": "date"}, "7", 7),
        ({"type": "long", "logicalType": "time-micros"}, '"01:02:03"', time(1, 2, 3)),
        (
            {"type": "long", "logicalType": "local-timestamp-micros"},
            '"2026-11-23T01:02:03"',
            datetime(2026, 11, 23, 1, 2, 3),
        ),
        (["float", "double"], "3e38", 3e38),
        (
            {"type": "long", "logicalType": "timestamp-micros"},
            '"2026-11-23T01:02:03"',
            datetime(2026, 11, 23, 1, 2, 3, tzinfo=UTC),
        ),
        ({"type": "array", "items": NAMED}, '["red", "blue"]', ["red", "blue"]),
        ({"type": "map", "values": ["null", "long"]}, '{"a": 1, "b": null}', {"a": 1, "b": None}),
        (["null", "string", "long"], "3", 3),
    ],
)
def test_a_value_that_suits(schema: Any, text: str, value: Any) -> None:
    found = datum(schema, text)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("schema", "text", "why"),
    [
        ("int", "2147483648", "payload is no int"),
        ("int", "true", "payload is no int"),
        ("long", "1.0", "payload is no long"),
        ("double", "true", "payload is no double"),
        ("double", "1" * 400, "payload is no double"),
        ("double", "1e400", "payload is no double"),
        ("float", "1e39", "payload is no float"),
        ("float", "1e400", "payload is no float"),
        ("string", "1", "payload is no string"),
        ("boolean", "0", "payload is no boolean"),
        ("bytes", '"\\u0100"', "payload is no bytes"),
        ({"type": "fixed", "name": "F", "size": 2}, '"abc"', "payload is no fixed"),
        (MONEY, "1.234", "payload is no decimal"),
        (MONEY, "123.4", "payload is no decimal"),
        (MONEY, '"NaN"', "payload is no decimal"),
        (MONEY, '"secret"', "payload is no decimal"),
        ({"type": "int", "logicalType": "date"}, '"secret"', "payload is no date"),
        ({"type": "long", "logicalType": "time-micros"}, '"01:02:03+02:00"', "payload is no time-micros"),
        (
            {"type": "long", "logicalType": "local-timestamp-micros"},
            '"2026-11-23T01:02:03+02:00"',
            "payload is no local-timestamp-micros",
        ),
        ({"type": "array", "items": NAMED}, '["red", "secret"]', "payload.1 is no enum of the schema"),
        (["null", "string"], "1", "payload is no string"),
        (["null", "string", "long"], "true", "payload suits no branch of its union in the schema"),
    ],
)
def test_a_value_that_does_not_suit_is_named_and_not_quoted(schema: Any, text: str, why: str) -> None:
    with pytest.raises(ValueError) as caught:
        datum(schema, text)
    assert str(caught.value) == why


def test_a_record_may_name_itself() -> None:
    node = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"], "default": None}]}
    assert datum(node, '{"next": {"next": {}}}') == {"next": {"next": {}}}
    with pytest.raises(ValueError, match=r"^payload\.next\.other is not in the schema$"):
        datum(node, '{"next": {"other": 1}}')


def test_what_is_no_schema_is_refused() -> None:
    with pytest.raises(ValueError, match="none of Avro's"):
        AvroSchema({"type": "record"}, [])
