"""The stdout sink: one JSON line for each message. Durable means: the operating system took the line.

    {"topic": "...", "key": "42", "value": "{...}", "headers": [["id", "..."]], "timestamp_ms": 1789...}

Key, value and header values are text where they are UTF-8, else {"base64": "..."}. A message that must go to one
partition has `"partition": 3` besides.
"""

import json
import os
import select
import sys
from base64 import b64encode
from collections.abc import Iterable
from functools import lru_cache
from json.encoder import encode_basestring
from time import monotonic

from pydantic import BaseModel, ConfigDict

from walrelay.errors import SinkError
from walrelay.lsn import LSN, ZERO
from walrelay.model import ANY_PARTITION, Message, Receipt
from walrelay.publish import SinkPlugin, SinkTraits

_ROOM = 1 << 20  # bytes that may wait for a slow reader
_PIPE_BUF = 4096  # what a pipe that select calls writable takes without blocking (POSIX)


class StdoutSettings(BaseModel):
    """`kind: stdout`: one JSON line for each message; logs go to stderr."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class LastLine:
    """`rest`: the end of a line that a sink wrote only in part. The reader needs it before the next sink's lines."""

    def __init__(self) -> None:
        self.rest = b""


class StdoutSink:
    """Never blocks on a reader that has stopped reading: it has no more room then."""

    def __init__(self, descriptor: int, last_line: LastLine) -> None:
        self._descriptor, self._last_line = descriptor, last_line
        self._waiting = bytearray(last_line.rest)
        self._written = 0  # bytes, since the beginning
        self._within_line = bool(last_line.rest)
        self._lines: list[tuple[int, int]] = []  # (offset where the line ends, ticket), oldest first

    def publish(self, message: Message, ticket: int) -> bool:
        if len(self._waiting) > _ROOM:
            return False
        self._waiting += line(message)
        self._lines.append((self._written + len(self._waiting), ticket))
        return True

    def mark(self, end_lsn: LSN, commit_lsn: LSN = ZERO, ordinal: int = 0, *, over: bool = False) -> None:
        pass

    def receipts(self, timeout: float) -> Iterable[Receipt]:
        self._write(timeout)
        count = 0
        while count < len(self._lines) and self._lines[count][0] <= self._written:
            count += 1
        settled, self._lines = self._lines[:count], self._lines[count:]
        return [Receipt(ticket, 1) for _, ticket in settled]

    def flush(self, timeout: float) -> None:
        deadline = monotonic() + timeout
        while self._waiting and monotonic() < deadline:
            self._write(deadline - monotonic())

    def close(self) -> None:
        end_of_line = self._waiting.find(b"\n") + 1
        del self._waiting[end_of_line if self._within_line else 0 :]
        self._last_line.rest = bytes(self._waiting)

    def descriptor(self) -> int | None:
        return None

    def trouble(self) -> str:
        return "standard output is not being read" if self._waiting else ""

    def _write(self, timeout: float) -> None:
        try:
            while self._waiting and select.select([], [self._descriptor], [], max(timeout, 0))[1]:
                count = os.write(self._descriptor, self._waiting[:_PIPE_BUF])
                self._within_line = not self._waiting.startswith(b"\n", count - 1)
                del self._waiting[:count]
                self._written += count
                timeout = 0
        except OSError as cause:
            raise SinkError(f"standard output cannot be written: {cause.strerror}") from cause


def line(message: Message) -> bytes:
    """The JSON line of `message`, with its newline."""
    topic, key, value, headers, timestamp, partition = message
    listed = ", ".join([f"[{_name(name)}, {_json(each)}]" for name, each in headers])
    place = "" if partition == ANY_PARTITION else f', "partition": {partition}'
    text = (
        f'{{"topic": {_name(topic)}, "key": {_json(key)}, "value": {_json(value)}, "headers": [{listed}],'
        f' "timestamp_ms": {timestamp}{place}}}\n'
    )
    # What is not UTF-8 in a name is a lone surrogate here, and becomes the JSON escape of one.
    return text.encode("utf-8", "backslashreplace")


_name = lru_cache(1_000)(encode_basestring)  # those of topics and headers come again and again


def _json(value: bytes | None) -> str:
    """What `readable` says, as JSON."""
    said = readable(value)
    return encode_basestring(said) if isinstance(said, str) else json.dumps(said)


def readable(value: bytes | None) -> str | dict[str, str] | None:
    """Text where it is UTF-8; otherwise in base64, and it says so."""
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(value).decode()}


plugin = SinkPlugin(
    StdoutSettings,
    open=lambda settings, last_line: StdoutSink(sys.stdout.fileno(), last_line),
    examine=lambda settings, topics: [],
    memory=LastLine,
    writes_to=lambda settings: "standard output",
    partitions=True,
    traits=SinkTraits(
        durable="written to standard output",
        order="of commits",
        repeats="recognised by the header id",
        headers="any bytes, null, repeated names",
        size="any",
    ),
)
