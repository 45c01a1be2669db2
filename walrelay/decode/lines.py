"""What `walrelay tail` prints: the lines of frames, and a record as one line of JSON.

    {"position": "16/B374D848:0", "committed_at": "2026-11-21T09:58:54.956040Z", "id": "...", ..., "payload": {...}}

`payload` and `headers` that are a JSON object or array stand there as they are, digit for digit; any other text is a
string (so a payload of JSON `"a"` is printed as `"\"a\""`, one of plain `a` as `"a"`, and one that is nested too
deeply for Python's parser, about a thousand levels, as a string), and what is not UTF-8 is
`{"base64": "..."}`. The other members are strings, as PostgreSQL prints the column; null is NULL or no such column.
"""

import json
from base64 import b64encode
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, Protocol

from walrelay.decode.contract import Columns, Decoder
from walrelay.decode.records import BYTES_ROLES
from walrelay.errors import ProtocolError, Undecodable
from walrelay.model import Committed, Idle, OutboxRecord, Skipped, Undecoded
from walrelay.wire import pgoutput
from walrelay.wire.frames import BODY

Column = tuple[str, bytes | None]


class RawRows:
    """Fed with all frames of a stream, it can name the columns of a row; else the row is one column, its frame."""

    def __init__(self, plugin: str) -> None:
        self._pgoutput = plugin == "pgoutput"
        self._relations: dict[int, pgoutput.Relation] = {}

    def learn(self, frame: bytes) -> None:
        """To be called with every frame, before `columns`."""
        if self._pgoutput and frame[:1] == b"w" and frame[BODY : BODY + 1] == b"R":
            relation = pgoutput.parse_relation(frame)
            self._relations[relation.oid] = relation

    def columns(self, frame: bytes) -> list[Column]:
        """Never an error: what cannot be taken apart is shown whole."""
        body = frame[BODY:]
        try:
            if self._pgoutput and body[:1] == b"I":
                return self._row(frame)
            if self._pgoutput and body[:1] == b"M":
                return [("content", pgoutput.parse_message(frame).content)]
        except (ProtocolError, KeyError):
            pass
        return [("frame", body)]

    def _row(self, frame: bytes) -> list[Column]:
        oid, count = pgoutput.parse_insert(frame)
        names = [column.name for column in self._relations[oid].columns]
        return list(zip(names, pgoutput.parse_row(frame, [bytes] * count), strict=False))


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LINE_BREAKS = bytes.maketrans(b"\r\n", b"  ")


class Line(NamedTuple):
    """One line, without a newline. `record`: it is an outbox record, not the beginning or end of a transaction."""

    text: bytes
    record: bool = True


Printed = Line | Committed | Idle | Skipped


class Lines(Protocol):
    """Frames in, lines out; obligations as those of `decode.contract.Decoder`.

    After the last line of a transaction comes Committed or Idle: everything before its position is printed.
    """

    def read(self, frame: bytes) -> Iterable[Printed]: ...


class RecordLines:
    """walrelay's own format: one JSON object a record, whichever plugin `decoder` is for."""

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder

    def read(self, frame: bytes) -> Iterator[Printed]:
        for event in self._decoder.decode(frame):
            if isinstance(event, Undecoded):
                raise Undecodable(event.reason, hint=event.hint)
            yield Line(record_line(event)) if isinstance(event, OutboxRecord) else event


def record_line(record: OutboxRecord) -> bytes:
    """The record as a JSON object in UTF-8, without a newline."""
    members = [f'"position": "{record.position}"', f'"committed_at": "{_time(record.committed_at)}"']
    members += [f'"{role}": {_value(role, getattr(record, role))}' for role in Columns._fields]
    return f"{{{', '.join(members)}}}".encode()


def _time(microseconds: int) -> str:
    """ISO 8601 in UTC, always with six digits, so that lines sort by it."""
    time = _EPOCH + timedelta(microseconds=microseconds)
    return time.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def _value(role: str, value: str | bytes | None) -> str:
    if value is None:
        return "null"
    raw = value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value
    try:
        text = raw.decode()
        if role in BYTES_ROLES and _is_document(text):
            return raw.translate(_LINE_BREAKS).decode()  # inside a JSON string there is none
    except UnicodeDecodeError:
        return json.dumps({"base64": b64encode(raw).decode()})
    return json.dumps(text, ensure_ascii=False)


def _is_document(text: str) -> bool:
    """Whether the text is a JSON object or array."""
    try:
        return isinstance(_DECODER.decode(text), dict | list)
    except (ValueError, RecursionError):
        return False


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


# Numbers need not become Python's: those of thousands of digits would be refused.
_DECODER = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=_refuse)
