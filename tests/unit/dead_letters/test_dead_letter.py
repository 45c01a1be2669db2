"""Records and messages as JSON and back, to the byte."""

import json

from walrelay.dead_letter import Origin, message_from, message_json, record_from, record_json
from walrelay.lsn import LSN
from walrelay.model import Message, OutboxRecord


def test_a_record_comes_back_as_it_was_whatever_bytes_it_holds() -> None:
    for payload, text in ((b'{"a":  1.50}', "é"), (b"\xff\0", "caf\udce9"), (None, "\0")):
        record = OutboxRecord(LSN(0x16_B374D848), 2, 5, "e", None, text, text, payload, b"{}", None, None, "now")
        found = record_json(record)
        assert found.isascii()
        assert record_from(json.loads(found)) == record
    assert json.loads(record_json(record))["commit_lsn"] == "16/B374D848"


def test_a_message_comes_back_as_it_was_whatever_bytes_it_holds() -> None:
    headers: list[tuple[str, bytes | None]] = [("a", b"1"), ("a", None), ("b", b"\xff")]
    message = Message("t", b"\xfe", b'{"a":  1}', headers, 1789)
    found = message_json(message)
    assert json.loads(found)["value"] == '{"a":  1}'
    assert json.loads(found)["key"] == {"base64": "/g=="}
    assert message_from(json.loads(found)) == message


def test_a_position_is_written_as_in_the_messages_header() -> None:
    assert Origin(LSN(0x16_B374D848), 2, 0, "e").position == "16/B374D848:2"
    assert Origin(LSN(0x16_B374D848), -1, 0, "").position == "16/B374D848"
