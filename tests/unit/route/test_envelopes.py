"""Envelopes: the bytes that each makes. `tests/integration/route` reads them with the packages of their users."""

import json
from typing import Any

import pytest

from walrelay.config.routes import RuleSettings
from walrelay.errors import Unroutable
from walrelay.inbox.identity import identify
from walrelay.lsn import LSN
from walrelay.model import Message, OutboxRecord
from walrelay.route import Router
from walrelay.route.envelopes.masstransit import message_urn
from walrelay.route.rules import RuleRouter, Rules

UUID = "4d47e190-0402-4048-bc2c-89dd54343cdc"
RECORD = OutboxRecord(
    LSN.parse("16/B374D848"),
    *(2, 1_789_000_123_999_000, UUID, "Tenant", "42", "Acme.Events.TenantCreated", b'{"a": 1.50, "b": [null]}'),
    *(b'{"region": "eu", "gone": null}', None, "acme", "2026-11-21 10:58:54.95+01"),
)
SOURCE = {"kind": "cloudevents", "source": "/shop/{tenant_id}"}
TENANT = {"a": 1.5, "b": [None]}


def message(envelope: dict[str, Any], record: OutboxRecord = RECORD, **rule: Any) -> Message:
    settings = RuleSettings.model_validate({"name": "all", "envelope": envelope, **rule})
    assert settings.envelope is not None
    (only,) = RuleRouter([settings.enveloped(settings.envelope)], "event.{aggregate_type}").route(record)
    return only


def refusal(envelope: dict[str, Any], record: OutboxRecord = RECORD) -> str:
    with pytest.raises(Unroutable) as caught:
        message(envelope, record)
    assert "walrelay docs envelopes" in caught.value.hint
    return str(caught.value).partition(f"does not suit the envelope {envelope['kind']}: ")[2]


def test_raw_is_what_is_published_without_an_envelope() -> None:
    assert (message({"kind": "raw"}),) == Router("event.{aggregate_type}").route(RECORD)


@pytest.mark.parametrize(
    "envelope", [SOURCE, {**SOURCE, "mode": "structured"}, {"kind": "masstransit"}, {"kind": "spring"}]
)
def test_topic_key_time_and_identity_are_as_without_an_envelope(envelope: dict[str, Any]) -> None:
    (raw,) = Router("event.{aggregate_type}").route(RECORD)
    made = message(envelope)
    assert (made.topic, made.key, made.timestamp_ms) == (raw.topic, raw.key, raw.timestamp_ms)
    found = identify(("1-0", dict(made.headers)))
    assert (found.id, found.type, found.position) == (RECORD.id, RECORD.type, ("16/B374D848", 2))


@pytest.mark.parametrize("envelope", [{**SOURCE, "mode": "structured"}, {"kind": "masstransit"}])
def test_a_payload_that_is_nested_too_deeply_suits_no_envelope_that_holds_it(envelope: dict[str, Any]) -> None:
    record = RECORD._replace(payload=b'{"a": ' + b"[" * 500 + b"]" * 500 + b"}")
    assert "nested too deeply" in refusal(envelope, record)


def test_cloudevents_in_binary_mode() -> None:
    made = message(SOURCE)
    assert made.value is RECORD.payload
    assert made.headers == [
        ("region", b"eu"),
        ("gone", None),
        ("id", UUID.encode()),
        ("type", b"Acme.Events.TenantCreated"),
        ("position", b"16/B374D848:2"),
        ("ce_specversion", b"1.0"),
        ("ce_id", UUID.encode()),
        ("ce_source", b"/shop/acme"),
        ("ce_type", b"Acme.Events.TenantCreated"),
        ("ce_subject", b"42"),
        ("ce_time", b"2026-09-10T00:28:43.999000Z"),
        ("content-type", b"application/json"),
    ]


def test_cloudevents_in_structured_mode() -> None:
    made = message({**SOURCE, "mode": "structured"})
    assert made.value == (
        b'{"specversion":"1.0","id":"4d47e190-0402-4048-bc2c-89dd54343cdc","source":"/shop/acme",'
        b'"type":"Acme.Events.TenantCreated","subject":"42","time":"2026-09-10T00:28:43.999000Z",'
        b'"datacontenttype":"application/json","data":{"a": 1.50, "b": [null]}}'
    )
    assert made.headers[5:] == [("content-type", b"application/cloudevents+json; charset=UTF-8")]


@pytest.mark.parametrize(
    ("content", "payload", "member"),
    [
        ("application/xml", b'<a b="c"/>', '"data":"<a b=\\"c\\"/>"'),
        ("text/plain; charset=UTF-8", b"a\nb", '"data":"a\\nb"'),
        ("application/avro", b"\0\xff", '"data_base64":"AP8="'),
        ("application/vnd.acme+json", b" [1.0] ", '"data": [1.0] '),
        ("application/json", b"null", '"data":null'),
    ],
)
def test_what_a_structured_event_holds_depends_on_its_content_type(content: str, payload: bytes, member: str) -> None:
    attributes = {"datacontenttype": content}
    made = message({**SOURCE, "mode": "structured", "attributes": attributes}, RECORD._replace(payload=payload))
    assert (made.value or b"").endswith(f'"datacontenttype":"{content}",{member}}}'.encode())


def test_an_event_without_data_is_a_tombstone_in_binary_mode_only() -> None:
    none = RECORD._replace(payload=None)
    assert message(SOURCE, none).value is None
    assert b'"data' not in (message({**SOURCE, "mode": "structured"}, none).value or b"").replace(
        b'"datacontenttype"', b""
    )


def test_an_attribute_without_a_value_is_left_out() -> None:
    names = {name for name, _ in message(SOURCE, RECORD._replace(aggregate_id=None)).headers}
    assert "ce_subject" not in names
    assert "ce_type" in names
    optional = message({**SOURCE, "attributes": {"dataschema": "{header.schema}", "subject": ""}})
    assert not {"ce_dataschema", "ce_subject"} & {name for name, _ in optional.headers}


@pytest.mark.parametrize(
    ("envelope", "change", "why"),
    [
        (SOURCE, {"type": None}, "there is no type: type is missing"),
        (SOURCE, {"type": ""}, "the type is empty"),
        (SOURCE, {"id": ""}, "the id is empty"),
        (SOURCE, {"id": "a\nb"}, "the id has characters that are no text"),
        (SOURCE, {"id": "\udcff"}, "the id has characters that are no text"),
        (SOURCE, {"tenant_id": None}, "there is no source: tenant_id is missing"),
        (SOURCE, {"tenant_id": "a b"}, "the source is no URI"),
        ({**SOURCE, "attributes": {"time": "{created_at}"}}, {"created_at": "soon"}, "the time is no time"),
        ({**SOURCE, "mode": "structured"}, {"payload": b"{"}, "its payload is not JSON"),
        ({**SOURCE, "mode": "structured"}, {"payload": b'"\xff"'}, "its payload is not JSON, as it is not UTF-8"),
        ({**SOURCE, "mode": "structured"}, {"payload": b"NaN"}, "its payload is not JSON"),
        (
            {**SOURCE, "mode": "structured", "attributes": {"datacontenttype": "text/plain"}},
            {"payload": b"\xff"},
            "its payload is text/plain by datacontenttype, but not UTF-8",
        ),
        ({"kind": "masstransit"}, {"id": "7"}, "the messageId is no UUID"),
        ({"kind": "masstransit"}, {"type": "a b"}, "the message type is no name of a type in .NET"),
        ({"kind": "masstransit"}, {"type": None}, "there is no message type: type is missing"),
        ({"kind": "masstransit"}, {"payload": b"[]"}, "its payload is not an object in JSON"),
        ({"kind": "masstransit"}, {"payload": None}, "its payload is not an object in JSON"),
        ({"kind": "masstransit"}, {"payload": b"{"}, "its payload is not JSON"),
        (
            {"kind": "masstransit", "attributes": {"correlationId": "{aggregate_id}"}},
            {},
            "the correlationId is no UUID",
        ),
        ({"kind": "spring", "attributes": {"contentType": "{header.x}"}}, {}, "there is no contentType: header.x is"),
    ],
)
def test_a_record_that_does_not_suit_is_refused(envelope: dict[str, Any], change: dict[str, Any], why: str) -> None:
    assert refusal(envelope, RECORD._replace(**change)).startswith(why)


def test_masstransit() -> None:
    attributes = {"correlationId": "{payload.order}", "sourceAddress": "rabbitmq://host/shop"}
    record = RECORD._replace(payload=f' {{"order": "{UUID}", "total": 12.50}}\n'.encode())
    made = message({"kind": "masstransit", "attributes": attributes}, record)
    assert made.value == (
        b'{"messageId":"4d47e190-0402-4048-bc2c-89dd54343cdc","correlationId":"4d47e190-0402-4048-bc2c-89dd54343cdc",'
        b'"sourceAddress":"rabbitmq://host/shop","sentTime":"2026-09-10T00:28:43.999000Z",'
        b'"messageType":["urn:message:Acme.Events:TenantCreated"],"headers":{"region":"eu","gone":null},'
        b'"host":{"machineName":"walrelay","processName":"walrelay"},'
        b'"message":{"order": "4d47e190-0402-4048-bc2c-89dd54343cdc", "total": 12.50}}'
    )
    assert made.headers[5:] == [("Content-Type", b"application/vnd.masstransit+json")]


def test_masstransit_knows_a_message_by_several_types() -> None:
    types = ["{type}", "Acme.Events.ITenantEvent", "urn:message:Other:Name", "Acme.Events.{aggregate_type}Event"]
    made = json.loads(message({"kind": "masstransit", "message_types": types}).value or b"")
    assert made["messageType"] == [
        "urn:message:Acme.Events:TenantCreated",
        "urn:message:Acme.Events:ITenantEvent",
        "urn:message:Other:Name",
        "urn:message:Acme.Events:TenantEvent",
    ]


@pytest.mark.parametrize(
    ("name", "urn"),
    [
        ("TenantCreated", "TenantCreated"),
        ("Acme.Llm.Domain.Events.TenantCreated", "Acme.Llm.Domain.Events:TenantCreated"),
        ("Acme.Events.T, Acme, Version=1.0.0.0, Culture=neutral, PublicKeyToken=null", "Acme.Events:T"),
        ("MassTransit.Tests.MessageUrnSpecs+X, MassTransit.Tests", "MassTransit.Tests:MessageUrnSpecs+X"),
        (
            "MassTransit.Tests.G`1[[MassTransit.TestFramework.Messages.PingMessage, MassTransit.TestFramework]], Tests",
            "MassTransit.Tests:G[[MassTransit.TestFramework.Messages:PingMessage]]",
        ),
        ("A.P`2[[B.X, B, Version=1],[A.G`1[[C.Y, C]], A]], A", "A:P[[B:X],[A:G[[C:Y]]]]"),
    ],
)
def test_types_get_the_urns_that_masstransit_gives_them(name: str, urn: str) -> None:
    assert message_urn(name) == f"urn:message:{urn}"


def test_spring() -> None:
    made = message({"kind": "spring"})
    assert made.value is RECORD.payload
    assert made.headers == [
        ("region", b"eu"),
        ("gone", None),
        ("event_id", UUID.encode()),
        ("type", b"Acme.Events.TenantCreated"),
        ("position", b"16/B374D848:2"),
        ("contentType", b"application/json"),
        (
            "spring_json_header_types",
            b'{"region":"java.lang.String","event_id":"java.lang.String","type":"java.lang.String",'
            b'"position":"java.lang.String","contentType":"java.lang.String"}',
        ),
    ]


def test_strings_that_spring_would_take_for_json_are_json() -> None:
    headers = json.dumps({"quoted": '"é"', "open": '"', "plain": "é"}, ensure_ascii=False).encode()
    made = dict(message({"kind": "spring"}, RECORD._replace(headers=headers)).headers)
    assert made["quoted"] == '"\\"é\\""'.encode()
    assert made["open"] == b'"\\""'
    assert made["plain"] == "é".encode()


def test_bytes_that_are_no_text_stay_bytes_to_spring() -> None:
    made = dict(message({"kind": "spring"}, RECORD._replace(type="\udcff")).headers)
    assert made["type"] == b"\xff"
    assert "type" not in json.loads(made["spring_json_header_types"] or b"")


@pytest.mark.parametrize(
    ("envelope", "name"),
    [
        (SOURCE, "ce_type"),
        (SOURCE, "CE_other"),
        (SOURCE, "Content-Type"),
        ({"kind": "masstransit"}, "content-type"),
        ({"kind": "spring"}, "contentType"),
        ({"kind": "spring"}, "spring_json_header_types"),
        ({"kind": "spring"}, "timestamp"),
    ],
)
def test_a_row_cannot_set_the_envelopes_headers(envelope: dict[str, Any], name: str) -> None:
    record = RECORD._replace(headers=json.dumps({name: "from the row", "own": "1"}).encode())
    made = message(envelope, record)
    assert b"from the row" not in [value for _, value in made.headers]
    assert ("own", b"1") in made.headers


def test_an_envelope_holds_what_the_rule_makes_of_the_payload_and_the_headers() -> None:
    made = message(
        {"kind": "masstransit"},
        payload={"redact": ["a"]},
        headers={"set": {"tenant": "{tenant_id}"}, "remove": ["gone"]},
    )
    body = json.loads(made.value or b"")
    assert body["message"] == {"a": None, "b": [None]}
    assert body["headers"] == {"region": "eu", "tenant": "acme"}


def test_an_envelope_without_rules_is_for_every_record() -> None:
    settings = RuleSettings.model_validate({"name": "a", "envelope": {"kind": "spring"}})
    assert settings.envelope is not None
    rules = Rules("event.{aggregate_type}", envelope=settings.envelope.envelope)
    assert rules.router().route(RECORD) == (message({"kind": "spring"}),)


def test_the_columns_that_an_envelope_names_are_read() -> None:
    envelope = RuleSettings.model_validate(
        {
            "name": "a",
            "envelope": {**SOURCE, "attributes": {"time": "{created_at}", "user": "{column.metadata.user}"}},
        }
    ).envelope
    assert envelope is not None
    roles, columns = Rules("event", envelope=envelope.envelope).needed
    assert {"tenant_id", "created_at"} <= roles
    assert columns == ["metadata"]


def test_each_transaction_has_its_own_time() -> None:
    settings = RuleSettings.model_validate({"name": "all", "envelope": SOURCE})
    assert settings.envelope is not None
    router = RuleRouter([settings.enveloped(settings.envelope)], "events")
    records = [RECORD._replace(committed_at=seconds * 1_000_000) for seconds in (0, 0, 5, 5, 0)]
    times = [dict(made.headers)["ce_time"] for record in records for made in router.route(record)]
    assert times == [b"1970-01-01T00:00:0%d.000000Z" % seconds for seconds in (0, 0, 5, 5, 0)]
