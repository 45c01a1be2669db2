"""pgoutput's frames to events: which relation is the outbox, and which of its columns mean what.

The stream describes itself: a row is read with the Relation that came before it in this very stream, never with
today's catalog (guarantees A32), and columns are found by name.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from walrelay.decode.contract import Columns, OutboxLayout, Skips
from walrelay.decode.messages import message_event
from walrelay.decode.records import (
    BINARY_PRINTERS,
    BPCHAR,
    BYTEA,
    BYTES_ROLES,
    JSON,
    JSONB,
    NOT_TRANSACTIONAL,
    TEXT,
    VARCHAR,
    as_text,
    json_text,
    missing_column,
    not_transactional,
    null_id,
    skipped_or_raise,
    unhex,
    unreadable_value,
)
from walrelay.errors import ProtocolError, Undecodable, WalrelayError
from walrelay.lsn import ZERO
from walrelay.model import Committed, Event, Idle, OutboxRecord, RecordPosition, Skipped
from walrelay.wire import pgoutput
from walrelay.wire.frames import BODY, XLOGDATA, parse_keepalive
from walrelay.wire.pgoutput import INSERT_HEAD
from walrelay.wire.row_parser import row_parser

Reader = Callable[[bytes], Any]

_TEXTS = frozenset({TEXT, VARCHAR, BPCHAR, JSON})  # binary is the text already
_OUTSIDE = pgoutput.Begin(ZERO, 0, 0)
_record: Callable[[tuple[Any, ...]], OutboxRecord] = partial(tuple.__new__, OutboxRecord)  # half the price of _make
_PASSED_OVER = frozenset({pgoutput.ORIGIN, pgoutput.TYPE, pgoutput.UPDATE, pgoutput.DELETE, pgoutput.TRUNCATE})


class Layout(NamedTuple):
    """How to read a row of the outbox."""

    columns: tuple[str, ...]
    readers: tuple[Reader | None, ...]  # by column: makes the record's value; None: the column is not read
    head: bytes  # what such a row's frame has at INSERT_HEAD
    parse: Callable[[bytes, int, int, int], OutboxRecord]  # of frame, commit LSN, ordinal and commit time


class PgoutputDecoder:
    """Decodes protocol version 1, in text or `binary` mode. See `decode.contract.Decoder` for the obligations."""

    def __init__(self, outbox: OutboxLayout, *, binary: bool = False, skips: Skips = frozenset()) -> None:
        self._outbox = outbox
        self._skips = skips
        self._binary = binary
        self._layouts: dict[int, Layout | None] = {}  # by relation OID; None: another table, or
        self._faulty: dict[int, pgoutput.Relation] = {}  # the outbox, in a form in which it cannot be read
        self._parsers: dict[bytes, Callable[[bytes, int, int, int], OutboxRecord]] = {}  # of the layouts, by head
        self._begin = _OUTSIDE
        self._ordinal = 0

    def decode(self, frame: bytes) -> tuple[Event, ...]:
        """The events of `frame`: none or one."""
        parse, begin = self._parsers.get(frame[INSERT_HEAD]), self._begin
        if parse is None or begin is _OUTSIDE or frame[0] != XLOGDATA:
            return self._other(frame)
        commit_lsn, committed_at, _ = begin
        try:
            record = parse(frame, commit_lsn, self._ordinal, committed_at)
        except ValueError:
            return self._fails(self._misread(frame))
        if record.id is None:
            return self._fails(null_id(self._outbox, record.position))
        self._ordinal += 1
        return (record,)

    def _other(self, frame: bytes) -> tuple[Event, ...]:
        if len(frame) > BODY and frame[0] == XLOGDATA:
            kind = frame[BODY]
            return self._insert(frame) if kind == pgoutput.INSERT else self._rare(kind, frame)
        if frame[:1] == b"k":
            keepalive = parse_keepalive(frame)
            return () if self._begin is not _OUTSIDE else (Idle(keepalive.wal_end),)
        raise ProtocolError(f"a frame of unknown kind {frame[:1]!r}", lsn=self._begin.final_lsn)

    def _insert(self, frame: bytes) -> tuple[Event, ...]:
        """A row for which there is no parser."""
        (oid, columns), lsn = pgoutput.parse_insert(frame), self._begin.final_lsn
        if oid not in self._layouts or self._begin is _OUTSIDE:
            raise ProtocolError(f"a row of relation {oid}, which was not announced", lsn=lsn)
        layout = self._layouts[oid]
        if layout is not None:
            raise ProtocolError(f"a row of {columns} columns, its relation has {len(layout.readers)}", lsn=lsn)
        return self._without_layout(oid)

    def _misread(self, frame: bytes) -> Undecodable:
        """The error for a row with a value that its reader does not accept; found by reading each value alone."""
        layout = next(each for each in self._layouts.values() if each and each.head == frame[INSERT_HEAD])
        read: dict[str, Any] = {}
        failed, why = "", ""
        for column, reader in zip(layout.columns, layout.readers, strict=True):
            only = [reader if each == column else None for each in layout.columns]
            try:
                read[column] = [*pgoutput.parse_row(frame, only), None][0]
            except ValueError as cause:
                failed, why = failed or column, why or str(cause)
        return unreadable_value(self._outbox, failed, self._position(), read.get(self._outbox.columns.id or ""), why)

    def _rare(self, kind: int, frame: bytes) -> tuple[Event, ...]:
        if kind == pgoutput.BEGIN:
            self._enter(pgoutput.parse_begin(frame))
        elif kind == pgoutput.COMMIT:
            return (self._leave(pgoutput.parse_commit(frame)),)
        elif kind == pgoutput.RELATION:
            relation = pgoutput.parse_relation(frame)
            self._announce(relation)
        elif kind == pgoutput.MESSAGE:
            return self._message(pgoutput.parse_message(frame))
        elif kind not in _PASSED_OVER:
            raise ProtocolError(f"a message of unknown type {chr(kind)!r}", lsn=self._begin.final_lsn)
        return ()

    def _enter(self, begin: pgoutput.Begin) -> None:
        if self._begin is not _OUTSIDE:
            raise ProtocolError("a transaction begins inside another", lsn=begin.final_lsn)
        self._begin = begin
        self._ordinal = 0

    def _leave(self, commit: pgoutput.Commit) -> Event:
        if self._begin is _OUTSIDE or commit.commit_lsn != self._begin.final_lsn:
            raise ProtocolError("a commit that is not that of the open transaction", lsn=commit.commit_lsn)
        self._begin = _OUTSIDE
        return Committed(commit.end_lsn) if self._ordinal else Idle(commit.end_lsn)

    def _message(self, message: pgoutput.LogicalMessage) -> tuple[Event, ...]:
        if message.prefix != self._outbox.prefix:
            return ()
        if not message.transactional:
            if self._outbox.skip_non_transactional:
                return (Skipped(message.lsn, NOT_TRANSACTIONAL),)
            error = not_transactional(message.prefix, str(message.lsn))
            return (skipped_or_raise(self._skips, message.lsn, None, error),)
        if self._begin is _OUTSIDE:
            raise ProtocolError("a transactional message outside any transaction", lsn=message.lsn)
        commit_lsn, committed_at, _ = self._begin
        event = message_event(message.content, commit_lsn, self._ordinal, committed_at, self._outbox, self._skips)
        self._ordinal += 1
        return (event,)

    def _position(self) -> str:
        return str(RecordPosition(self._begin.final_lsn, self._ordinal))

    def _fails(self, error: WalrelayError) -> tuple[Event, ...]:
        """A row that cannot be read has an ordinal all the same: later rows keep theirs."""
        skipped = skipped_or_raise(self._skips, self._begin.final_lsn, self._ordinal, error)
        self._ordinal += 1
        return (skipped,)

    def _announce(self, relation: pgoutput.Relation) -> None:
        """Keeps an error for the first row, so that the error has a position."""
        self._faulty.pop(relation.oid, None)
        try:
            self._layouts[relation.oid] = self._layout(relation)
        except Undecodable:
            self._layouts[relation.oid] = None
            self._faulty[relation.oid] = relation
        self._parsers = {layout.head: layout.parse for layout in self._layouts.values() if layout}

    def _without_layout(self, oid: int) -> tuple[Event, ...]:
        if oid in self._faulty:
            try:
                self._layout(self._faulty[oid])
            except Undecodable as error:
                return self._fails(error)
        return ()

    def _layout(self, relation: pgoutput.Relation) -> Layout | None:
        if (relation.schema, relation.name) != (self._outbox.schema, self._outbox.table):
            return None
        types = {column.name: column.type_oid for column in relation.columns}
        readers: dict[str, Reader] = {}
        for role, column in zip(Columns._fields, self._outbox.columns, strict=True):
            if column is not None:
                if role in self._outbox.optional and not self._is_read(types.get(column)):
                    continue
                if column not in types:
                    raise missing_column(self._outbox, role, column, types, self._position())
                readers[column] = self._reader(role, column, types[column])
        for column in self._outbox.extra:
            if column not in types:
                raise missing_column(self._outbox, None, column, types, self._position())
            readers[column] = self._reader(None, column, types[column])
        columns = tuple(column.name for column in relation.columns)
        places = [None if column not in readers else columns.index(column) for column in self._outbox.columns]
        by_column = tuple(map(readers.get, columns))
        head = pgoutput.insert_head(relation.oid, len(columns))
        extra = {column: columns.index(column) for column in self._outbox.extra}
        return Layout(columns, by_column, head, row_parser(by_column, places, _record, extra))

    def _is_read(self, type_oid: int | None) -> bool:
        return type_oid is not None and (type_oid in BINARY_PRINTERS or not self._binary)

    def _reader(self, role: str | None, column: str, type_oid: int) -> Reader:
        if role in BYTES_ROLES:
            return self._bytes_reader(role, column, type_oid)
        return self._printer(column, type_oid) if self._binary else as_text

    def _bytes_reader(self, role: str, column: str, type_oid: int) -> Reader:
        if type_oid == BYTEA and role == "payload":
            return bytes if self._binary else unhex
        if not self._binary or type_oid in _TEXTS:
            return bytes
        if type_oid == JSONB:
            return json_text
        printer = self._printer(column, type_oid)
        return lambda value: printer(value).encode("utf-8", "surrogateescape")

    def _printer(self, column: str, type_oid: int) -> Callable[[bytes], str]:
        if type_oid not in BINARY_PRINTERS:
            raise Undecodable(
                f"column {column!r} of {self._outbox.schema}.{self._outbox.table} has the type with OID {type_oid},"
                f" which is not read in binary mode (at {self._position()})",
                hint="Set source.binary to false: in text mode a column may have any type.",
            )
        return BINARY_PRINTERS[type_oid]
