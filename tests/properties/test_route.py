"""Templates and headers: whatever a row holds, it becomes a message or is said to be unroutable."""

import json

from hypothesis import given
from hypothesis import strategies as st

from walrelay.errors import Unroutable
from walrelay.lsn import LSN
from walrelay.model import OutboxRecord
from walrelay.route import FIELDS, Router, TopicTemplate

names = st.text(st.characters(codec="utf-8"), max_size=8)
maybe = st.none() | names
literals = names.map(lambda text: text.replace("{", "{{").replace("}", "}}"))
templates = st.lists(literals | st.sampled_from([f"{{{field}}}" for field in FIELDS]), max_size=6)

records = st.builds(
    OutboxRecord,
    commit_lsn=st.integers(1, 2**64 - 1).map(LSN),
    ordinal=st.integers(0, 10**9),
    committed_at=st.integers(0, 2**52),
    id=names,
    aggregate_type=maybe,
    aggregate_id=maybe,
    type=maybe,
    payload=st.none() | st.binary(max_size=20),
    headers=st.none(),
    topic=maybe,
    tenant_id=maybe,
    created_at=maybe,
)


@given(templates, st.lists(records, min_size=1, max_size=5))
def test_a_topic_is_its_template_with_the_fields_in_place_or_unroutable(
    parts: list[str], rows: list[OutboxRecord]
) -> None:
    template = TopicTemplate("".join(parts))
    for record in rows:
        named = {f"{{{field}}}": getattr(record, field) for field in FIELDS}
        missing = [part for part in parts if part in named and not named[part]]
        try:
            topic = template.render(record)
        except Unroutable:
            assert missing
        else:
            assert not missing
            assert topic == "".join(
                named[part] if part in named else part.replace("{{", "{").replace("}}", "}") for part in parts
            )


@given(st.text(st.sampled_from("{}!:.[]abcdetypei_nr "), max_size=15))
def test_any_text_is_a_template_or_a_value_error(text: str) -> None:
    try:
        template = TopicTemplate(text)
    except ValueError:
        return
    full = OutboxRecord(LSN(1), 0, 0, "1", "a", "b", "c", None, None, None, "d", None)
    assert isinstance(template.render(full), str)


@given(records)
def test_key_value_and_time_are_the_records_own(record: OutboxRecord) -> None:
    (message,) = Router("fallback").route(record)
    assert message.topic == (record.topic or "fallback")
    assert message.key == (None if record.aggregate_id is None else record.aggregate_id.encode())
    assert message.value is record.payload
    assert message.timestamp_ms == record.committed_at // 1000
    assert dict(message.headers)["position"] == record.position.encode()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | names,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4),
    max_leaves=8,
)


@given(records, st.dictionaries(names, json_values, max_size=5), st.booleans())
def test_headers_mean_what_the_json_object_means(
    record: OutboxRecord, members: dict[str, object], ascii_only: bool
) -> None:
    text = json.dumps(members, ensure_ascii=ascii_only).encode()
    (message,) = Router("t").route(record._replace(headers=text))
    for (name, value), (expected_name, expected) in zip(message.headers, members.items(), strict=False):
        assert name == expected_name
        if expected is None or isinstance(expected, str):
            assert value == (None if expected is None else expected.encode())
        else:
            assert json.loads(value or b"") == expected


@given(records, st.binary(max_size=30))
def test_any_bytes_for_headers_are_headers_or_unroutable(record: OutboxRecord, headers: bytes) -> None:
    try:
        (message,) = Router("t").route(record._replace(headers=headers))
    except Unroutable:
        return
    assert message.headers[-1][0] == "position"
