r"""What `walrelay tail` prints: a record as one line of JSON, or the lines of wal2json.

    {"position": "16/B374D848:0", "committed_at": "2026-11-21T09:58:54.956040Z", "id": "...", ..., "payload": {...}}

`payload` and `headers` that are a JSON object or array are printed as they are, digit for digit. Any other text is a
string (a payload of JSON `"a"` is printed as `"\"a\""`, one of plain `a` as `"a"`, and one that is nested too deeply
for Python's parser, about a thousand levels, as a string). What is not UTF-8 is `{"base64": "..."}`. The other members
are strings, as PostgreSQL prints the column; null is NULL or no such column.

`--format wal2json` prints outbox inserts as wal2json's format version 2 does with its default options. From wal2json's
own slot the lines are the plugin's. From pgoutput they are rendered: it sends the same texts, and what it does not say,
the names of built-in types and of domains, is asked for. It names other types before each Relation, as they were
called then. A transaction without an outbox record prints nothing.
"""

import json
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, Protocol

from walrelay.decode.contract import Columns, Decoder, OutboxLayout
from walrelay.decode.messages import utf8_content
from walrelay.decode.records import BYTES_ROLES, as_text
from walrelay.errors import ProtocolError, Undecodable
from walrelay.json_text import refuse_depth
from walrelay.lsn import LSN
from walrelay.model import Committed, Idle, OutboxRecord, Skipped, Undecoded
from walrelay.wire import pgoutput
from walrelay.wire.frames import BODY, parse_keepalive
from walrelay.wire.wal2json_lines import BEGIN, COMMIT, ColumnText, insert, logical_message

RawColumn = tuple[str, bytes | None]


class RawRowReader:
    """Names the columns of a row, if it has seen all frames of the stream; else a row is one column, its frame."""

    def __init__(self, plugin: str) -> None:
        self._pgoutput = plugin == "pgoutput"
        self._relations: dict[int, pgoutput.Relation] = {}

    def learn(self, frame: bytes) -> None:
        """To be called with every frame, before `columns`."""
        if self._pgoutput and frame[:1] == b"w" and frame[BODY : BODY + 1] == b"R":
            relation = pgoutput.parse_relation(frame)
            self._relations[relation.oid] = relation

    def columns(self, frame: bytes) -> list[RawColumn]:
        """Never an error: what cannot be parsed is shown whole."""
        body = frame[BODY:]
        try:
            if self._pgoutput and body[:1] == b"I":
                return self._row(frame)
            if self._pgoutput and body[:1] == b"M":
                return [("content", pgoutput.parse_message(frame).content)]
        except (ProtocolError, KeyError):
            pass
        return [("frame", body)]

    def _row(self, frame: bytes) -> list[RawColumn]:
        oid, count = pgoutput.parse_insert(frame)
        names = [column.name for column in self._relations[oid].columns]
        return list(zip(names, pgoutput.parse_row(frame, [bytes] * count), strict=False))


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LINE_BREAKS = bytes.maketrans(b"\r\n", b"  ")


class TailLine(NamedTuple):
    """A line without a newline. `record`: it is an outbox record, not the beginning or end of a transaction."""

    text: bytes
    record: bool = True


TailItem = TailLine | Committed | Idle | Skipped


class LineReader(Protocol):
    """Frames in, lines out; see `decode.contract.Decoder` for the obligations.

    After the last line of a transaction comes Committed or Idle: everything before its position is printed.
    """

    def read(self, frame: bytes) -> Iterable[TailItem]: ...


class RecordLineReader:
    """walrelay's own format: one JSON object a record, whichever plugin `decoder` is for."""

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder

    def read(self, frame: bytes) -> Iterator[TailItem]:
        for event in self._decoder.decode(frame):
            if isinstance(event, Undecoded):
                raise Undecodable(event.reason, hint=event.hint)
            yield TailLine(record_line(event)) if isinstance(event, OutboxRecord) else event


def record_line(record: OutboxRecord) -> bytes:
    """The record as a JSON object in UTF-8, without a newline."""
    members = [f'"position": "{record.position}"', f'"committed_at": "{_time(record.committed_at)}"']
    members += [f'"{role}": {_value(role, getattr(record, role))}' for role in Columns._fields]
    if record.columns:
        columns = ", ".join(f"{json.dumps(name)}: {_value(None, value)}" for name, value in record.columns.items())
        members.append(f'"columns": {{{columns}}}')
    return f"{{{', '.join(members)}}}".encode()


def _time(microseconds: int) -> str:
    """ISO 8601 in UTC, always with six digits, so that lines sort by it."""
    time = _EPOCH + timedelta(microseconds=microseconds)
    return time.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def _value(role: str | None, value: str | bytes | None) -> str:
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
    try:
        refuse_depth(text)
        return isinstance(_DECODER.decode(text), dict | list)
    except (ValueError, RecursionError):
        return False


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


# Numbers stay text: Python refuses to parse thousands of digits.
_DECODER = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=_refuse)


class ColumnType(NamedTuple):
    """`then`: schema and name of the type at that point of the stream; it may be called differently now."""

    oid: int
    modifier: int
    then: tuple[str, str] | None = None


TypeNames = Callable[[Sequence[ColumnType]], Sequence[str]]
"""The name of each type, as format_type prints it or printed it then. Called once for each Relation of the outbox."""

_INSERT = b'{"action":"I",'
_MESSAGE = b'{"action":"M",'


class _Transaction:
    """The line B before its first record, C after its last; neither where there is no record."""

    def __init__(self) -> None:
        self._open = self._printed = False

    def begin(self) -> None:
        if self._open:
            raise ProtocolError("a transaction begins inside another")
        self._open, self._printed = True, False

    def record(self, text: bytes) -> Iterator[TailItem]:
        if not self._open:
            raise ProtocolError("a record outside any transaction")
        if not self._printed:
            self._printed = True
            yield TailLine(BEGIN, record=False)
        yield TailLine(text)

    def end(self, lsn: LSN) -> Iterator[TailItem]:
        if not self._open:
            raise ProtocolError("the end of a transaction that did not begin", lsn=lsn)
        if self._printed:
            yield TailLine(COMMIT, record=False)
        yield Committed(lsn) if self._printed else Idle(lsn)
        self._open = False

    def message(self, text: bytes, lsn: LSN, *, transactional: bool) -> Iterator[TailItem]:
        """A logical message that is not transactional is sent at once, outside any transaction."""
        if transactional:
            yield from self.record(text)
        else:
            yield from (TailLine(text), Idle(lsn))

    def keepalive(self, frame: bytes) -> Iterator[TailItem]:
        lsn = parse_keepalive(frame).wal_end
        if not self._open:
            yield Idle(lsn)


class PluginLineReader:
    """From frames of wal2json under `wire.wal2json.plain_options`."""

    def __init__(self, prefix: str | None) -> None:
        self._transaction = _Transaction()
        self._ours = {
            flag: logical_message(transactional=flag, prefix=prefix, content=b"").removesuffix(b'""}')
            for flag in (True, False)
            if prefix is not None
        }

    def read(self, frame: bytes) -> Iterator[TailItem]:
        if frame[:1] == b"k":
            return self._transaction.keepalive(frame)
        body, lsn = frame[BODY:], LSN.from_bytes(frame[1:9])
        if body == BEGIN:
            self._transaction.begin()
            return iter(())
        if body == COMMIT:
            return self._transaction.end(lsn)  # where the server writes a Commit from: the commit's end
        if body.startswith(_INSERT):
            return self._transaction.record(body)
        if body.startswith(_MESSAGE):
            return self._message(body, lsn)
        raise ProtocolError("a line of wal2json that was not asked for", lsn=lsn)

    def _message(self, body: bytes, lsn: LSN) -> Iterator[TailItem]:
        for transactional, beginning in self._ours.items():
            if body.startswith(beginning):
                yield from self._transaction.message(body, lsn, transactional=transactional)


class RenderedLineReader:
    """From frames of pgoutput in text mode."""

    def __init__(self, outbox: OutboxLayout, type_names: TypeNames) -> None:
        self._outbox, self._type_names = outbox, type_names
        self._transaction = _Transaction()
        self._layouts: dict[int, list[tuple[str, str, int]] | None] = {}  # by relation OID; None: another table
        self._types: dict[int, tuple[str, str]] = {}  # by OID; sent before each Relation that has them

    def read(self, frame: bytes) -> Iterator[TailItem]:
        if frame[:1] == b"k":
            return self._transaction.keepalive(frame)
        match frame[BODY : BODY + 1]:
            case b"I":
                return self._insert(frame)
            case b"M":
                return self._message(pgoutput.parse_message(frame))
            case b"C":
                return self._transaction.end(pgoutput.parse_commit(frame).end_lsn)
            case b"B":
                self._transaction.begin()
            case b"R":
                self._relation(pgoutput.parse_relation(frame))
            case b"Y":
                named = pgoutput.parse_type(frame)
                self._types[named.oid] = (named.schema, named.name)
            case b"O" | b"U" | b"D" | b"T":
                pass  # neither an insert nor a transaction's frame
            case kind:
                raise ProtocolError(f"a message of unknown type {kind!r}")
        return iter(())

    def _relation(self, relation: pgoutput.Relation) -> None:
        self._layouts[relation.oid] = None
        if (relation.schema, relation.name) == (self._outbox.schema, self._outbox.table):
            names = self._type_names(
                [
                    ColumnType(column.type_oid, column.type_modifier, self._types.get(column.type_oid))
                    for column in relation.columns
                ]
            )
            self._layouts[relation.oid] = [
                (column.name, name, column.type_oid) for column, name in zip(relation.columns, names, strict=True)
            ]

    def _insert(self, frame: bytes) -> Iterator[TailItem]:
        (oid, count), lsn = pgoutput.parse_insert(frame), LSN.from_bytes(frame[1:9])
        if oid not in self._layouts:
            raise ProtocolError(f"a row of relation {oid}, which was not announced", lsn=lsn)
        layout = self._layouts[oid]
        if layout is None:
            return iter(())
        if count != len(layout):
            raise ProtocolError(f"a row of {count} columns, its relation has {len(layout)}", lsn=lsn)
        texts = pgoutput.parse_row(frame, [as_text] * count)
        columns = (ColumnText(*column, text) for column, text in zip(layout, texts, strict=True))
        return self._transaction.record(insert(self._outbox.schema, self._outbox.table, columns))

    def _message(self, message: pgoutput.LogicalMessage) -> Iterator[TailItem]:
        if message.prefix != self._outbox.prefix:
            return iter(())
        content = utf8_content(message.content, str(message.lsn), self._outbox.encoding)
        text = logical_message(transactional=message.transactional, prefix=message.prefix, content=content)
        return self._transaction.message(text, message.lsn, transactional=message.transactional)
