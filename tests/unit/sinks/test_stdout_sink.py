"""The stdout sink, over a pipe whose reader reads when the test says so."""

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest

from walrelay.errors import Fatal
from walrelay.model import Message, Receipt
from walrelay.sinks.stdout import LastLine, StdoutSink, line, readable

HEADERS: list[tuple[str, bytes | None]] = [("id", b"7"), ("none", None)]
MESSAGE = Message("orders", b"42", b'{"a":  1}', HEADERS, 1_789_000_123_456)
LARGE = MESSAGE._replace(value=b"x" * 300_000)


class Pipe:
    def __init__(self) -> None:
        self.reader, self.writer = os.pipe()
        self.sink = StdoutSink(self.writer, LastLine())

    def read(self) -> bytes:
        return os.read(self.reader, 1 << 20)


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    pipe = Pipe()
    yield pipe
    for descriptor in (pipe.reader, pipe.writer):
        os.close(descriptor)


def parsed(message: Message) -> Any:
    text = line(message)
    assert text.endswith(b"\n")
    assert text.count(b"\n") == 1
    return json.loads(text)


def test_a_line_is_the_message_as_json() -> None:
    assert parsed(MESSAGE) == {
        "topic": "orders",
        "key": "42",
        "value": '{"a":  1}',
        "headers": [["id", "7"], ["none", None]],
        "timestamp_ms": 1_789_000_123_456,
    }


@pytest.mark.parametrize("text", ['"', "\\", "\0\x1f\x7f", "\u2028", "größe 😀", "\udcff", "", "/"])
def test_a_line_is_what_json_writes(text: str) -> None:
    value = text.encode(errors="surrogateescape")
    members = {
        "topic": text,
        "key": readable(value),
        "value": readable(value),
        "headers": [[text, readable(value)], [text, None]],
        "timestamp_ms": 1,
        "partition": 3,
    }
    written = line(Message(text, value, value, [(text, value), (text, None)], 1, 3))
    assert written == json.dumps(members, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"


def test_null_is_null_and_text_is_readable() -> None:
    assert parsed(MESSAGE._replace(key=None, value=None))["value"] is None
    assert "größe 😀\\n".encode() in line(MESSAGE._replace(value="größe 😀\n".encode()))


def test_what_is_not_utf_8_is_base64() -> None:
    found = parsed(MESSAGE._replace(key=b"\xff", value=b"\0\xff", headers=[("h", b"\xff")]))
    assert (found["key"], found["value"], found["headers"]) == (
        {"base64": "/w=="},
        {"base64": "AP8="},
        [["h", {"base64": "/w=="}]],
    )


def test_names_that_are_not_utf_8_are_lines_all_the_same() -> None:
    found = parsed(MESSAGE._replace(topic="caf\udce9", headers=[("\udcff", b"v")]))
    assert (found["topic"], found["headers"]) == ("caf\udce9", [["\udcff", "v"]])


def test_a_receipt_comes_when_the_operating_system_has_the_line(pipe: Pipe) -> None:
    assert pipe.sink.publish(MESSAGE, 3)
    assert pipe.sink.publish(MESSAGE, 4)
    assert list(pipe.sink.receipts(1)) == [Receipt(3, 1), Receipt(4, 1)]
    assert pipe.read() == line(MESSAGE) * 2
    assert list(pipe.sink.receipts(0)) == []


def test_a_line_that_is_written_in_part_has_no_receipt_yet(pipe: Pipe) -> None:
    pipe.sink.publish(MESSAGE, 1)
    pipe.sink.publish(LARGE, 2)
    assert list(pipe.sink.receipts(0)) == [Receipt(1, 1)]
    written = pipe.read()
    receipts: list[Receipt] = []
    while not receipts:
        receipts.extend(pipe.sink.receipts(0))
        written += pipe.read()
    assert receipts == [Receipt(2, 1)]
    assert written == line(MESSAGE) + line(LARGE)


def test_a_reader_that_does_not_read_is_no_room_and_is_said(pipe: Pipe) -> None:
    assert pipe.sink.trouble() == ""
    taken = 0
    while pipe.sink.publish(LARGE, 0):
        list(pipe.sink.receipts(0))
        taken += 1
        assert taken < 20, "the sink takes without end"
    assert "not being read" in pipe.sink.trouble()
    pipe.sink.flush(0)


def test_flushing_writes_what_waits(pipe: Pipe) -> None:
    pipe.sink.publish(MESSAGE, 0)
    pipe.sink.flush(5)
    assert pipe.read() == line(MESSAGE)
    assert list(pipe.sink.receipts(0)) == [Receipt(0, 1)]


def test_closing_lets_go_of_what_waits(pipe: Pipe) -> None:
    pipe.sink.publish(MESSAGE, 0)
    pipe.sink.close()
    pipe.sink.close()
    assert list(pipe.sink.receipts(0)) == []
    assert pipe.sink.trouble() == ""


def test_a_reader_that_is_gone_is_fatal() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    sink = StdoutSink(writer, LastLine())
    sink.publish(MESSAGE, 0)
    with pytest.raises(Fatal, match="standard output cannot be written: Broken pipe"):
        sink.receipts(0)
    os.close(writer)
