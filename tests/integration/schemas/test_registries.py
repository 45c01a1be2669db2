"""Payloads through a registry, read back by confluent-kafka's own deserializers: over the fake, and over Apicurio."""

import json
from base64 import b64encode
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, message_factory
from google.protobuf.descriptor_pool import DescriptorPool

from tests.servers.schema_registry import FakeRegistry, apicurio
from walrelay.errors import Fatal, RegistryAway
from walrelay.route.rules.schemas import OwnSchema, PayloadSchema, Reference, SchemaRequest
from walrelay.schemas import SchemaRegistry

CONTEXT = SerializationContext("orders", MessageField.VALUE)
CUSTOMER = {"type": "record", "name": "Customer", "namespace": "shop", "fields": [{"name": "name", "type": "string"}]}
ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "total", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "weight", "type": ["null", "double"], "default": None},
        {"name": "customer", "type": "shop.Customer"},
    ],
}
DRAFT = "http://json-schema.org/draft-07/schema#"
ORDER_JSON = {
    "$schema": DRAFT,
    "title": "Order",
    "type": "object",
    "properties": {"id": {"type": "integer"}, "customer": {"$ref": "customer.json"}},
    "required": ["id"],
}
PAYLOAD = b'{"id": 7, "total": 12.50, "weight": 1.5, "customer": {"name": "Ada"}}'


@pytest.fixture
def fake() -> Iterator[FakeRegistry]:
    registry = FakeRegistry()
    yield registry
    registry.close()


@pytest.fixture(scope="module")
def _apicurio() -> Iterator[str]:
    yield from apicurio()


@pytest.fixture(params=["fake", pytest.param("apicurio", marks=pytest.mark.chaos)])
def url(request: pytest.FixtureRequest) -> str:
    if request.param == "fake":
        return str(request.getfixturevalue("fake").url)
    return str(request.getfixturevalue("_apicurio"))


@pytest.fixture
def client(url: str) -> Any:
    return SchemaRegistryClient({"url": url, "max.retries": 0})


def registry_at(url: str, **options: Any) -> SchemaRegistry:
    return SchemaRegistry({"url": url, "timeout": 5.0, **options})


def wanted(subject: str, kind: Any = "avro", **more: Any) -> SchemaRequest:
    return SchemaRequest(kind, subject, **more)


def register(client: Any, subject: str, schema: Any, kind: str = "AVRO", **references: str) -> int:
    """`references`: subjects by name, of which version 1 is meant."""
    text = schema if isinstance(schema, str) else json.dumps(schema)
    named = [{"name": name, "subject": of, "version": 1} for name, of in references.items()]
    described = Schema.from_dict({"schema": text, "schemaType": kind, "references": named})
    return int(client.register_schema(subject, described))


def test_avro_with_a_reference_is_what_confluents_deserializer_reads(url: str, client: Any) -> None:
    register(client, "customer", CUSTOMER)
    number = register(client, "orders-value", ORDER, "AVRO", **{"shop.Customer": "customer"})
    encoded = registry_at(url).encoded(wanted("orders-value"), PAYLOAD)
    assert encoded[:5] == b"\0" + number.to_bytes(4, "big")
    read = AvroDeserializer(client)(encoded, CONTEXT)
    assert read == {"id": 7, "total": Decimal("12.50"), "weight": 1.5, "customer": {"name": "Ada"}}


def test_json_schema_checks_the_payload_and_leaves_it_as_it_was_written(url: str, client: Any) -> None:
    register(client, "customer-json", {"$schema": DRAFT, "type": "object", "required": ["name"]}, "JSON")
    number = register(client, "orders-json-value", ORDER_JSON, "JSON", **{"customer.json": "customer-json"})
    registry, asked = registry_at(url), wanted("orders-json-value", "json-schema")
    encoded = registry.encoded(asked, PAYLOAD)
    assert encoded == b"\0" + number.to_bytes(4, "big") + PAYLOAD
    assert JSONDeserializer(None, schema_registry_client=client)(encoded, CONTEXT) == json.loads(PAYLOAD)
    for payload, why in (
        (b'{"id": "secret"}', "payload.id does not suit the schema: type"),
        (b'{"id": 1, "customer": {}}', "payload.customer does not suit the schema: required"),
    ):
        with pytest.raises(ValueError, match=rf"^{why} \(subject 'orders-json-value', version 1, id {number}\)$"):
            registry.encoded(asked, payload)


def test_protobuf_by_its_mapping_to_json(fake: FakeRegistry) -> None:
    customer = _file("customer.proto", Customer={"name": "string"})
    order = _file("order.proto", Other={}, Order={"id": "int64", "customer": ".shop.Customer"})
    order.dependency.append("customer.proto")
    fake.register("customer", _serialized(customer), "PROTOBUF")
    reference = {"name": "customer.proto", "subject": "customer", "version": 1}
    fake.register("orders-value", _serialized(order), "PROTOBUF", [reference])
    registry, asked = registry_at(fake.url), wanted("orders-value", "protobuf", record="shop.Order")

    encoded = registry.encoded(asked, b'{"id": "7", "customer": {"name": "Ada"}}')
    assert encoded[:7] == b"\0\0\0\0\2\2\2"  # the second message: one index, which is 1
    assert registry.encoded(asked._replace(record=None), b"{}") == b"\0\0\0\0\2\0"
    pool = DescriptorPool()
    pool.Add(customer)
    pool.Add(order)
    message_class = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))
    client: Any = SchemaRegistryClient({"url": fake.url})
    read: Any = ProtobufDeserializer(message_class, {"use.deprecated.format": False}, client)(encoded, CONTEXT)
    assert (read.id, read.customer.name) == (7, "Ada")
    assert all("format=serialized" in each for each in fake.asked if "/versions/" in each)

    for payload, why in (
        (b'{"id": "secret"}', "payload.id does not suit shop.Order (subject 'orders-value', version 1, id 2)"),
        (b'{"other": 1}', "payload.other does not suit shop.Order"),
        (b"secret", "the payload does not suit shop.Order"),
    ):
        with pytest.raises(ValueError) as caught:
            registry.encoded(asked, payload)
        assert str(caught.value).startswith(why)
        assert "secret" not in str(caught.value)
    with pytest.raises(ValueError, match=r"^the schema has no message None; it has shop\.Other, shop\.Order"):
        registry.encoded(asked._replace(record="None"), b"{}")


def test_a_version_or_an_id_names_another_schema_than_the_latest(url: str, client: Any) -> None:
    first = register(client, "versions-value", '{"type": "record", "name": "A", "fields": []}')
    field = '{"name": "a", "type": "int", "default": 1}'
    second = register(client, "versions-value", f'{{"type": "record", "name": "A", "fields": [{field}]}}')
    registry, subject = registry_at(url), wanted("versions-value")
    for asked, number in (
        (subject, second),
        (subject._replace(version="1"), first),
        (subject._replace(version="2"), second),
        (subject._replace(id=str(first)), first),
    ):
        assert registry.encoded(asked, b"{}")[1:5] == number.to_bytes(4, "big")


def test_what_is_not_there_and_what_does_not_suit_is_refused_with_its_name(url: str, client: Any) -> None:
    register(client, "there-value", {"type": "record", "name": "B", "fields": [{"name": "a", "type": "int"}]})
    registry, subject = registry_at(url), wanted("there-value")
    for asked, payload, why in (
        (wanted("away-value"), b"{}", "the schema registry has no subject 'away-value'"),
        (subject._replace(version="9"), b"{}", "the schema registry has no subject 'there-value', version 9"),
        (subject._replace(id="99999"), b"{}", "the schema registry has no schema id 99999"),
        (subject._replace(version="x"), b"{}", "the version of its schema is no number"),
        (
            subject._replace(format="json-schema"),
            b"{}",
            "the schema is one of AVRO, and `schema.format` is json-schema",
        ),
        (subject, b"{}", "payload.a is missing, and has no default in the schema (subject 'there-value', version 1"),
        (subject, b'{"a": 1, "b": 2}', "payload.b is not in the schema"),
        (subject, b'{"a": "secret"}', "payload.a is no int"),
        (subject, b"secret", "the payload is no JSON, and is not encoded yet"),
        (subject, b"null", "payload is no object, as the record B is"),
    ):
        with pytest.raises(ValueError) as caught:
            registry.encoded(asked, payload)
        assert str(caught.value).startswith(why)
        assert "secret" not in str(caught.value)


def test_a_schema_of_the_settings_has_to_be_registered_or_is_registered(url: str, client: Any) -> None:
    register(client, "customer-own", CUSTOMER)
    own = OwnSchema(json.dumps(ORDER), (Reference("shop.Customer", "customer-own", 1),))
    asked = wanted("own-value", own=own)
    with pytest.raises(ValueError, match="has no subject 'own-value' with the schema of the settings"):
        registry_at(url).encoded(asked, PAYLOAD)
    encoded = registry_at(url).encoded(asked._replace(own=own._replace(registers=True)), PAYLOAD)
    assert registry_at(url).encoded(asked, PAYLOAD) == encoded
    assert AvroDeserializer(client)(encoded, CONTEXT)["total"] == Decimal("12.50")


def test_an_incompatible_schema_is_refused_and_does_not_stop_others(fake: FakeRegistry) -> None:
    fake.register("own-value", '"string"')
    own = OwnSchema('{"type": "record", "name": "incompatible", "fields": []}', registers=True)
    with pytest.raises(ValueError, match=r"refuses the schema of subject 'own-value' with .*: .*incompatible"):
        registry_at(fake.url).encoded(wanted("own-value", own=own), b"{}")
    assert registry_at(fake.url).encoded(wanted("own-value"), b'"a"')[5:] == b"\x02a"


def test_the_registry_is_asked_once_and_again_before_a_payload_is_refused(fake: FakeRegistry) -> None:
    fake.register("t-value", {"type": "record", "name": "A", "fields": []})
    registry = registry_at(fake.url)
    for _ in range(3):
        registry.encoded(wanted("t-value"), b"{}")
    assert len(fake.asked) == 1
    field = {"name": "a", "type": "int", "default": 1}
    second = fake.register("t-value", {"type": "record", "name": "A", "fields": [field]})
    assert registry.encoded(wanted("t-value"), b'{"a": 2}')[1:5] == second.to_bytes(4, "big")
    assert len(fake.asked) == 2
    with pytest.raises(ValueError, match=r"payload\.b is not in the schema \(subject 't-value', version 2"):
        registry.encoded(wanted("t-value"), b'{"b": 2}')
    fake.answers = 503, b"{}"
    with pytest.raises(RegistryAway):  # nothing is refused while nobody knows whether it would suit
        registry.encoded(wanted("t-value"), b'{"b": 2}')
    registry.encoded(wanted("t-value"), b'{"a": 2}')


@pytest.mark.parametrize("answers", [(503, b"{}"), (401, b"{}"), (404, b"<html>")])
def test_a_schema_that_suits_stays_in_use_while_the_registry_cannot_be_asked_for_a_later_one(
    fake: FakeRegistry, answers: tuple[int, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.register("t-value", '"string"')
    registry, now = registry_at(fake.url), [0.0]
    monkeypatch.setattr("walrelay.schemas.registry.monotonic", lambda: now[0])
    first = registry.encoded(wanted("t-value"), b'"a"')
    fake.answers, now[0] = answers, 301.0
    assert registry.encoded(wanted("t-value"), b'"a"') == registry.encoded(wanted("t-value"), b'"a"') == first
    assert len(fake.asked) == 2
    fake.answers, now[0] = None, 602.0
    second = fake.register("t-value", ["null", "string"])
    assert registry.encoded(wanted("t-value"), b'"a"')[1:5] == second.to_bytes(4, "big")


@pytest.mark.parametrize(
    ("answers", "error", "why"),
    [
        ((500, b"{}"), RegistryAway, "cannot be asked for subject 't-value': HTTP 500"),
        ((429, b'{"error_code": 429, "message": "slow down"}'), RegistryAway, "HTTP 429: slow down"),
        ((200, b"<html>log in</html>"), RegistryAway, "cannot be asked for subject 't-value'"),
        ((200, b"[]"), RegistryAway, "its answer is not understood"),
        ((200, b""), RegistryAway, "its answer is not understood"),
        ((200, b"\xff\xfe\xfa"), RegistryAway, "its answer is not understood"),
        ((401, b"{}"), Fatal, "refuses walrelay subject 't-value': HTTP 401"),
        ((403, b'{"error_code": 40301, "message": "denied"}'), Fatal, "HTTP 403"),
        ((404, b"<html>nothing</html>"), Fatal, "is no schema registry: HTTP 404"),
        ((302, b""), Fatal, "is no schema registry: HTTP 302"),
    ],
)
def test_who_is_at_fault_decides_what_becomes_of_it(
    fake: FakeRegistry, answers: tuple[int, bytes], error: type[Exception], why: str
) -> None:
    fake.answers = answers
    with pytest.raises(error) as caught:
        registry_at(fake.url).encoded(wanted("t-value"), b"{}")
    assert why in str(caught.value)
    assert fake.url in str(caught.value)
    assert getattr(caught.value, "hint", "")


def test_what_answers_for_a_registry_that_is_started_again_does_not_end_the_relay(fake: FakeRegistry) -> None:
    fake.register("t-value", '"string"')
    registry = registry_at(fake.url)
    registry.encoded(wanted("t-value"), b'"a"')
    for fake.answers in ((404, b"<html>default backend</html>"), (302, b"")):
        with pytest.raises(RegistryAway, match="cannot be asked for subject 'other-value': HTTP"):
            registry.encoded(wanted("other-value"), b'"a"')


def test_a_registry_that_does_not_answer_is_away_after_its_timeout(fake: FakeRegistry) -> None:
    fake.hangs.set()
    with pytest.raises(RegistryAway, match="timed out"):
        registry_at(fake.url, timeout=0.2).encoded(wanted("t-value"), b"{}")
    fake.close()
    with pytest.raises(RegistryAway, match="onnection refused"):
        registry_at(fake.url).encoded(wanted("t-value"), b"{}")


def test_a_registry_in_memory_serves_too() -> None:
    registry = registry_at("mock://here")
    own = OwnSchema('{"type": "object"}', registers=True)
    assert registry.encoded(wanted("t-value", "json-schema", own=own), b'{"a":1}')[5:] == b'{"a":1}'


def test_the_doctor_asks_for_what_the_settings_name(fake: FakeRegistry) -> None:
    fake.register("a-value", '"string"')
    found = [*registry_at(fake.url).examine([(PayloadSchema("avro"), topic) for topic in ("a", "b", "c.*")])]
    assert [(each.subject, each.verdict) for each in found] == [
        ("schema registry", "ok"),
        ("subject a-value", "ok"),
        ("subject b-value", "problem"),
    ]
    (wrong,) = [*registry_at(fake.url).examine([(PayloadSchema("protobuf"), "a")])][1:]
    assert "the schema is one of AVRO, and `schema.format` is protobuf" in wrong.detail
    fake.answers = 401, b"{}"
    (away,) = registry_at(fake.url).examine([(PayloadSchema("avro"), "a")])
    assert (away.verdict, "HTTP 401" in away.detail, bool(away.fix)) == ("problem", True, True)


def _file(name: str, **messages: dict[str, str]) -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(name=name, package="shop", syntax="proto3")
    for message, fields in messages.items():
        described = file.message_type.add(name=message)
        for number, (field, kind) in enumerate(fields.items(), 1):
            types = {"string": 9, "int64": 3}
            of_message = {} if kind in types else {"type_name": kind}
            described.field.add(name=field, number=number, label=1, type=types.get(kind, 11), **of_message)
    return file


def _serialized(file: descriptor_pb2.FileDescriptorProto) -> str:
    return b64encode(file.SerializeToString()).decode()
