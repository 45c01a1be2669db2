"""Envelopes: whatever a record holds, there is a message that its users' readers understand, or a refusal."""

import json
from base64 import b64decode
from typing import Any
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from tests.properties.test_route import records
from walrelay.config.routes import RuleSettings
from walrelay.errors import Unroutable
from walrelay.model import Message, OutboxRecord
from walrelay.route.rules import RuleRouter

texts = st.text(max_size=8) | st.sampled_from(["", '"', '"a"', '"a', "a b", "é", "\udcff"])
values: st.SearchStrategy[Any] = st.none() | st.booleans() | st.integers() | texts | st.dictionaries(texts, texts)
documents = values.map(lambda value: json.dumps(value).encode()) | st.binary(max_size=8)
headers = st.dictionaries(
    st.text(st.characters(codec="utf-8"), max_size=5) | st.sampled_from(["ce_type", "Content-Type", "id", "timestamp"]),
    st.none() | texts,
    max_size=3,
)
types = st.none() | texts | st.sampled_from(["Acme.Placed", "Acme.P`1[[A.B, C]], D", "A`1[[", "A.[]"])
rich = st.builds(
    lambda record, id_, type_, payload, own: record._replace(
        id=id_, type=type_, payload=payload, headers=json.dumps(own).encode()
    ),
    records,
    st.uuids().map(str) | st.text(st.characters(codec="utf-8"), max_size=8),
    types.map(lambda text: text and text.encode("utf-8", "replace").decode()),
    st.none() | documents,
    headers,
)


def made(envelope: dict[str, Any], record: OutboxRecord) -> Message | None:
    rule = RuleSettings.model_validate({"name": "all", "topic": "t", "envelope": envelope})
    assert rule.envelope is not None
    try:
        (message,) = RuleRouter([rule.enveloped(rule.envelope)], "t").route(record)
    except Unroutable:
        return None
    for name, _ in message.headers:
        name.encode()
    return message


@given(rich, st.sampled_from(["application/json", "text/x", "a/b"]))
def test_a_structured_event_holds_the_record(record: OutboxRecord, content: str) -> None:
    settings = {"kind": "cloudevents", "mode": "structured", "source": "/a/{tenant_id}"}
    message = made({**settings, "attributes": {"datacontenttype": content}}, record)
    if message is None:
        return
    event = json.loads(message.value or b"")
    assert (event["id"], event["type"], event["source"]) == (record.id, record.type, f"/a/{record.tenant_id}")
    assert event.get("subject", "") == (record.aggregate_id or "")
    payload = record.payload
    if payload is None:
        assert not {"data", "data_base64"} & event.keys()
    elif content == "application/json":
        assert event["data"] == json.loads(payload)
        assert payload in (message.value or b"")
    else:
        assert event.get("data", "").encode() == payload or b64decode(event["data_base64"]) == payload


@given(rich)
def test_a_binary_event_has_its_attributes_in_headers(record: OutboxRecord) -> None:
    message = made({"kind": "cloudevents", "source": "/a"}, record)
    if message is None:
        return
    names = [name for name, _ in message.headers if name.startswith("ce_")]
    assert len(names) == len(set(names))
    found = {name: (value or b"").decode() for name, value in message.headers if name in names}
    assert found.items() >= {"ce_id": record.id, "ce_type": record.type, "ce_source": "/a"}.items()
    assert message.value is record.payload


@given(rich)
def test_masstransits_envelope_holds_the_payload_as_it_is(record: OutboxRecord) -> None:
    message = made({"kind": "masstransit"}, record)
    if message is None:
        return
    body = json.loads(message.value or b"")
    assert UUID(body["messageId"]) == UUID(record.id)
    assert all(urn.startswith("urn:") for urn in body["messageType"])
    assert body["message"] == json.loads(record.payload or b"")
    assert (record.payload or b"").strip(b" \t\r\n") in (message.value or b"")
    own = dict(json.loads(record.headers or b"{}"))
    assert body["headers"] == {name: value for name, value in own.items() if name.lower() not in ("content-type", "id")}


def read_by_spring(written: list[tuple[str, bytes | None]]) -> dict[str, object]:
    """What BinderHeaderMapper.toHeaders of Spring Cloud Stream 4.1 makes of headers of the class String."""
    classes = json.loads(dict(written)["spring_json_header_types"] or b"")
    found: dict[str, object] = {}
    for name, value in written:
        if name == "spring_json_header_types":
            continue
        if name not in classes:
            found[name] = value
        else:
            assert value is not None, "Spring fails on null"
            assert classes[name] == "java.lang.String"
            found[name] = json.loads(value) if value.startswith(b'"') else value.decode()
    return found


@given(rich)
def test_spring_reads_the_headers_of_the_row(record: OutboxRecord) -> None:
    message = made({"kind": "spring"}, record)
    if message is None:
        return
    found = read_by_spring(message.headers)
    assert message.value is record.payload
    assert (found["event_id"], found["contentType"]) == (record.id, "application/json")
    assert not {"id", "timestamp"} & found.keys()
    own = {
        name: value for name, value in json.loads(record.headers or b"{}").items() if name not in ("id", "timestamp")
    }
    for name, value in own.items():
        expected = value if value is None else value.encode("utf-8", "surrogateescape")
        text = found[name]
        assert (text.encode() if isinstance(text, str) else text) == expected or name in ("type", "position")
