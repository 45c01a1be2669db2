"""Payloads and schemas that libraries fail at: the record is refused, whatever they raise, and the relay goes on."""

import json
from io import BytesIO
from typing import Any

import pytest
from confluent_kafka.schema_registry import RegisteredSchema
from confluent_kafka.schema_registry.error import SchemaRegistryError
from fastavro import schemaless_reader

from walrelay.schemas.formats import Encode, encoder

NODE = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"], "default": None}]}
NESTED = {"properties": {"next": {"$ref": "#"}}}
PRICE = {"type": "object", "properties": {"price": {"type": "number", "multipleOf": 0.01, "maximum": 1e30}}}


def encodes(schema: Any, kind: Any) -> Encode:
    types = {"avro": "AVRO", "json-schema": "JSON"}
    text = schema if isinstance(schema, str) else json.dumps(schema)
    found = {"subject": "t-value", "id": 1, "version": 1, "schema": text, "schemaType": types[kind], "references": []}
    return encoder(kind, None, RegisteredSchema.from_dict(found), None)


@pytest.mark.parametrize(
    ("schema", "kind", "payload"),
    [
        (NODE, "avro", b'{"next": ' * 300 + b"null" + b"}" * 300),
        ("double", "avro", b"1e99999999999999999999"),
        ("float", "avro", b"1e39"),
        (NESTED, "json-schema", b'{"next": ' * 300 + b"{}" + b"}" * 300),
        (PRICE, "json-schema", b'{"price": 1e400}'),
        (PRICE, "json-schema", b'{"price": -' + b"1" * 4000 + b".5}"),
        (PRICE, "json-schema", b'{"price": 1e99999999999999999999}'),
        ({"$ref": "#"}, "json-schema", b"{}"),
        ({"$ref": "#/definitions/none"}, "json-schema", b"{}"),
        ({"$ref": "other.json"}, "json-schema", b"{}"),
    ],
)
def test_a_payload_that_a_library_fails_at_is_refused(schema: Any, kind: str, payload: bytes) -> None:
    encode = encodes(schema, kind)
    with pytest.raises(ValueError, match=r"payload|refers to") as caught:
        encode(payload)
    assert type(caught.value) is ValueError


def test_a_payload_is_refused_also_while_the_error_of_a_registry_is_handled() -> None:
    try:
        raise SchemaRegistryError(503, 503, "away")
    except SchemaRegistryError:
        with pytest.raises(ValueError, match="RecursionError"):
            encodes(NODE, "avro")(b'{"next": ' * 300 + b"null" + b"}" * 300)


@pytest.mark.parametrize("schema", ["{", "null", "[1]", {"type": "nothing"}, {"pattern": "(["}])
def test_a_schema_that_is_none_of_json_schemas_is_refused_before_any_payload(schema: Any) -> None:
    with pytest.raises(ValueError, match="the schema is none of JSON Schema's"):
        encodes(schema, "json-schema")


@pytest.mark.parametrize("price", ["19.99", "1.10", "0.07", "4.35", "1e2", "12345678901234567890123456789.01"])
def test_numbers_are_compared_in_decimal(price: str) -> None:
    payload = f'{{"price": {price}}}'.encode()
    assert encodes(PRICE, "json-schema")(payload)[5:] == payload
    with pytest.raises(ValueError, match=r"^payload\.price does not suit the schema: multipleOf$"):
        encodes(PRICE, "json-schema")(b'{"price": 19.995}')


def test_a_whole_number_is_an_integer_however_it_is_written() -> None:
    encode = encodes({"type": "integer"}, "json-schema")
    for payload in (b"1", b"1.0", b"1e3", b"12345678901234567890.0"):
        assert encode(payload)[5:] == payload
    with pytest.raises(ValueError, match="type"):
        encode(b"1.5")


def test_the_number_of_a_fraction_stays_a_fraction_in_avro() -> None:
    encoded = encodes(["long", "double"], "avro")(b"-0.0")
    read: Any = schemaless_reader(BytesIO(encoded[5:]), ["long", "double"], None)
    assert str(read) == "-0.0"
