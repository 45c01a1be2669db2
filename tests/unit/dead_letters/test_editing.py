"""What an operator makes of a record: which fields can be edited, in which forms, and how the difference is shown."""

import json
from typing import Any

import pytest

from walrelay.dead_letters.editing import as_text, difference, edited_record
from walrelay.dead_letters.forms import record_shown
from walrelay.errors import Fatal
from walrelay.lsn import LSN
from walrelay.model import OutboxRecord

RECORD = OutboxRecord(
    LSN(0x16_B374D848),
    2,
    1_700_000_000_000_001,
    "e1",
    "order",
    "42",
    "Placed",
    b'{"total": 5, "name": "caf\xc3\xa9"}',
    b'{"a":  "1"}',
    None,
    "acme",
    None,
    {"tags": "{x}"},
)


def test_what_is_left_out_stays_as_it_was_to_the_byte() -> None:
    odd = RECORD._replace(payload=b"\xff\0", aggregate_id="\udcff")
    assert edited_record(odd, {"type": "Moved"}) == odd._replace(type="Moved")
    assert edited_record(odd, record_shown(odd)) == odd
    assert edited_record(odd, json.loads(as_text(odd))) == odd


def test_what_was_shown_is_read_back_as_the_same_record() -> None:
    assert edited_record(RECORD, json.loads(as_text(RECORD))) == RECORD
    assert json.loads(as_text(RECORD))["payload"] == {"total": 5, "name": "café"}
    assert json.loads(as_text(RECORD))["headers"] == '{"a":  "1"}', "another text would not have the same bytes"


@pytest.mark.parametrize(
    "payload",
    [
        "1",
        "[1.50]",
        '{"a": 1e400}',
        '{"base64": "AAAA"}',
        '["\\u00e9"]',
        "{}",
        "[]",
        '{"a": 1, "a": 2}',
        '"x"',
        "{",
        "null",
        "[" * 100_000,
        '{"n": 12345678901234567890123}',
        '{"a": null}',
        '{"é": "\\u0000"}',
        "[" + "1, " * 100_000 + "1]",
    ],
    ids=range(16),
)
def test_any_payload_survives_an_editor_in_which_nothing_is_typed(payload: str) -> None:
    record = RECORD._replace(payload=payload.encode())
    assert edited_record(record, json.loads(as_text(record))).payload == payload.encode()


def test_every_field_but_those_that_say_which_event_it_is_can_be_edited() -> None:
    changes: dict[str, Any] = {
        "aggregate_type": "o",
        "aggregate_id": {"base64": "/w=="},
        "type": None,
        "payload": {"total": 6},
        "headers": {"a": "2"},
        "topic": "t",
        "tenant_id": "t",
        "created_at": "now",
        "columns": {"tags": None},
    }
    edited = edited_record(RECORD, changes)
    assert edited == RECORD._replace(
        **{**changes, "aggregate_id": "\udcff", "payload": b'{"total": 6}', "headers": b'{"a": "2"}'}
    )
    assert {*changes} | {"commit_lsn", "ordinal", "committed_at", "id"} == {*OutboxRecord._fields}


@pytest.mark.parametrize("name", ["commit_lsn", "ordinal", "committed_at", "id"])
def test_id_position_and_time_cannot_be_edited(name: str) -> None:
    with pytest.raises(Fatal, match=f"{name} cannot be edited") as caught:
        edited_record(RECORD, {name: "1/1"})
    assert "payload" in caught.value.hint
    for same in (
        record_shown(RECORD)[name],
        RECORD.committed_at if name == "committed_at" else record_shown(RECORD)[name],
    ):
        assert edited_record(RECORD, {name: same}) == RECORD


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([], "not a JSON object"),
        (None, "not a JSON object"),
        ({"position": "1/1:0"}, "'position' is not a field"),
        ({"topic": 5}, "topic is text"),
        ({"topic": ["a"]}, "topic is text"),
        ({"columns": "x"}, "not a record"),
        ({"columns": {"tags": 5}}, "tags is text"),
        ({"payload": {"base64": "?"}}, "not a record"),
        ({"payload": {"base64": 5}}, "not a record"),
        ({"payload": "\ud800"}, "not a record"),
        ({"payload": {"a": "\ud800"}}, "not a record"),
        ({"payload": {"a": float("inf")}}, "not a record"),
        ({"columns": {"\ud800": "x"}}, "not a record"),
    ],
)
def test_what_is_no_record_is_refused_with_what_is_wrong(given: object, said: str) -> None:
    with pytest.raises(Fatal, match=said) as caught:
        edited_record(RECORD, given)
    assert "dlq show" in caught.value.hint


def test_the_difference_shows_members_of_json_line_by_line() -> None:
    edited = RECORD._replace(payload=b'{"total": 6, "name": "caf\xc3\xa9"}')
    told = difference(RECORD, edited).splitlines()
    assert told[:2] == ["--- original", "+++ edited"]
    assert [line for line in told[2:] if line[0] in "+-"] == ['-    "total": 5,', '+    "total": 6,']
    assert difference(RECORD, RECORD) == ""
    assert difference(RECORD, edited, back=True).splitlines()[:2] == ["--- edited", "+++ original"]
