"""Which schema a record's payload is encoded by, and which payloads stay as they are."""

from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from walrelay.errors import Unroutable
from walrelay.lsn import LSN
from walrelay.model import Finding, OutboxRecord
from walrelay.route.rules import Rule, RuleRouter
from walrelay.route.rules.schemas import OwnSchema, PayloadSchema, SchemaRequest

RECORD = OutboxRecord(LSN(1), 0, 0, "7", "order", "a", "Placed", b'{"v": 3}', None, None, "acme", None)


class Encoder:
    def __init__(self) -> None:
        self.wanted: list[SchemaRequest] = []

    def encoded(self, wanted: SchemaRequest, payload: bytes) -> bytes:
        self.wanted.append(wanted)
        if payload == b"bad":
            raise ValueError("the payload does not suit")
        return b"\0" + payload

    def examine(self, schemas: Iterable[tuple[PayloadSchema, str]]) -> Iterator[Finding]:
        yield from ()


def routed(record: OutboxRecord, schema: PayloadSchema, **rule: Any) -> tuple[bytes | None, list[SchemaRequest]]:
    encoder = Encoder()
    (message,) = RuleRouter([Rule("all", schema=schema, **rule)], "{aggregate_type}s", encoder=encoder).route(record)
    return message.value, encoder.wanted


@pytest.mark.parametrize(
    ("schema", "wanted"),
    [
        (PayloadSchema("avro"), SchemaRequest("avro", "orders-value")),
        (
            PayloadSchema("protobuf", "record", "shop.{type}"),
            SchemaRequest("protobuf", "shop.Placed", record="shop.Placed"),
        ),
        (
            PayloadSchema("avro", "topic-record", "shop.{type}"),
            SchemaRequest("avro", "orders-shop.Placed", record="shop.Placed"),
        ),
        (PayloadSchema("avro", version="{payload.v}"), SchemaRequest("avro", "orders-value", "3")),
        (PayloadSchema("avro", id="{payload.v}"), SchemaRequest("avro", "orders-value", "latest", "3")),
        (PayloadSchema("avro", own=OwnSchema("{}")), SchemaRequest("avro", "orders-value", own=OwnSchema("{}"))),
    ],
)
def test_the_schema_is_named_by_topic_record_version_or_id(schema: PayloadSchema, wanted: SchemaRequest) -> None:
    assert routed(RECORD, schema) == (b'\0{"v": 3}', [wanted])


def test_the_sink_is_no_part_of_the_subject() -> None:
    assert routed(RECORD, PayloadSchema("avro"), sinks=("east",))[1] == [SchemaRequest("avro", "orders-value")]


@pytest.mark.parametrize("payload", [None, b"\0\0\0\0\7abc", b"\1" + bytes(16) + b"abc"])
def test_what_the_writer_encoded_and_a_tombstone_stay_as_they_are(payload: bytes | None) -> None:
    assert routed(RECORD._replace(payload=payload), PayloadSchema("avro")) == (payload, [])


def test_a_record_that_cannot_be_encoded_is_refused_with_its_place() -> None:
    with pytest.raises(Unroutable, match=r"^record 7 at 0/1:0 cannot be encoded: the payload does not suit$") as caught:
        routed(RECORD._replace(payload=b"bad"), PayloadSchema("avro"))
    assert "walrelay docs schemas" in caught.value.hint
    with pytest.raises(
        Unroutable, match=r"cannot be encoded: the id of its schema cannot be made, payload\.x is missing"
    ):
        routed(RECORD, PayloadSchema("avro", id="{payload.x}"))
