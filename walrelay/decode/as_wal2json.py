"""Outbox inserts as the lines of wal2json's format version 2 with its default options, from either output plugin.

From wal2json's own slot the lines are the plugin's. From pgoutput they are rendered: it sends the same texts, and what
it does not say, the names of built-in types and of domains, is asked for. Other types it names before each Relation, as
they were called then. A transaction without an outbox record prints nothing.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from walrelay.decode.contract import Outbox
from walrelay.decode.lines import Line, Printed
from walrelay.decode.messages import utf8_content
from walrelay.decode.records import as_text
from walrelay.errors import ProtocolError
from walrelay.lsn import LSN
from walrelay.model import Committed, Idle
from walrelay.wire import pgoutput
from walrelay.wire.frames import BODY, parse_keepalive
from walrelay.wire.wal2json_lines import BEGIN, COMMIT, Column, insert, logical_message


class ColumnType(NamedTuple):
    """A column's type; `then`: its schema and name as the stream has them, which may be others by now."""

    oid: int
    modifier: int
    then: tuple[str, str] | None = None


TypeNames = Callable[[Sequence[ColumnType]], Sequence[str]]
"""What format_type says, or said then, for each. Asked once for each Relation of the outbox."""

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

    def record(self, text: bytes) -> Iterator[Printed]:
        if not self._open:
            raise ProtocolError("a record outside any transaction")
        if not self._printed:
            self._printed = True
            yield Line(BEGIN, record=False)
        yield Line(text)

    def end(self, lsn: LSN) -> Iterator[Printed]:
        if not self._open:
            raise ProtocolError("the end of a transaction that did not begin", lsn=lsn)
        if self._printed:
            yield Line(COMMIT, record=False)
        yield Committed(lsn) if self._printed else Idle(lsn)
        self._open = False

    def message(self, text: bytes, lsn: LSN, *, transactional: bool) -> Iterator[Printed]:
        """A logical message; one that is not transactional is sent at once, outside any transaction."""
        if transactional:
            yield from self.record(text)
        else:
            yield from (Line(text), Idle(lsn))

    def keepalive(self, frame: bytes) -> Iterator[Printed]:
        lsn = parse_keepalive(frame).wal_end
        if not self._open:
            yield Idle(lsn)


class PluginLines:
    """From frames of wal2json under `wire.wal2json.plain_options`."""

    def __init__(self, prefix: str | None) -> None:
        self._transaction = _Transaction()
        self._ours = {
            flag: logical_message(transactional=flag, prefix=prefix, content=b"").removesuffix(b'""}')
            for flag in (True, False)
            if prefix is not None
        }

    def read(self, frame: bytes) -> Iterator[Printed]:
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

    def _message(self, body: bytes, lsn: LSN) -> Iterator[Printed]:
        for transactional, beginning in self._ours.items():
            if body.startswith(beginning):
                yield from self._transaction.message(body, lsn, transactional=transactional)


class RenderedLines:
    """From frames of pgoutput in text mode."""

    def __init__(self, outbox: Outbox, type_names: TypeNames) -> None:
        self._outbox, self._type_names = outbox, type_names
        self._transaction = _Transaction()
        self._layouts: dict[int, list[tuple[str, str, int]] | None] = {}  # by relation OID; None: another table
        self._types: dict[int, tuple[str, str]] = {}  # by OID; sent before each Relation that has them

    def read(self, frame: bytes) -> Iterator[Printed]:
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

    def _insert(self, frame: bytes) -> Iterator[Printed]:
        (oid, count), lsn = pgoutput.parse_insert(frame), LSN.from_bytes(frame[1:9])
        if oid not in self._layouts:
            raise ProtocolError(f"a row of relation {oid}, which was not announced", lsn=lsn)
        layout = self._layouts[oid]
        if layout is None:
            return iter(())
        if count != len(layout):
            raise ProtocolError(f"a row of {count} columns, its relation has {len(layout)}", lsn=lsn)
        texts = pgoutput.parse_row(frame, [as_text] * count)
        columns = (Column(*column, text) for column, text in zip(layout, texts, strict=True))
        return self._transaction.record(insert(self._outbox.schema, self._outbox.table, columns))

    def _message(self, message: pgoutput.LogicalMessage) -> Iterator[Printed]:
        if message.prefix != self._outbox.prefix:
            return iter(())
        content = utf8_content(message.content, str(message.lsn), self._outbox.encoding)
        text = logical_message(transactional=message.transactional, prefix=message.prefix, content=content)
        return self._transaction.message(text, message.lsn, transactional=message.transactional)
