"""wal2json's frames to events, format versions 1 and 2: the same records as pgoutput's for the same transactions.

Two things differ, because the plugin does not say more. In format version 1 a record's `commit_lsn` is the last
byte of its commit record instead of the first (see wire.wal2json), and the whole transaction is in memory at once.
And a null of the types real, double precision and numeric may have been NaN or an infinity: in a column with a role
that stops the relay, also where the role may be NULL, because publishing a NULL that was none would change the event
without a trace.
"""

from collections.abc import Iterator, Mapping

from walrelay.decode.contract import Columns, OutboxLayout, Skips
from walrelay.decode.messages import message_event
from walrelay.decode.records import (
    NOT_TRANSACTIONAL,
    as_text,
    missing_column,
    not_transactional,
    null_id,
    record_of,
    skipped_or_raise,
    unhex,
    unreadable_value,
)
from walrelay.errors import ProtocolError, Undecodable, WalrelayError
from walrelay.lsn import ZERO
from walrelay.model import NO_COLUMNS, Committed, Event, Idle, OutboxRecord, RecordPosition, Skipped
from walrelay.wire import wal2json
from walrelay.wire.frames import parse_keepalive

_OUTSIDE = wal2json.TransactionBegin(ZERO, 0)
_PARSERS = {1: wal2json.parse_transaction, 2: wal2json.parse_line}


class Wal2jsonDecoder:
    """Decodes one `format_version`, 1 or 2. See `decode.contract.Decoder` for the obligations."""

    def __init__(self, outbox: OutboxLayout, format_version: int, *, skips: Skips = frozenset()) -> None:
        self._outbox = outbox
        self._skips = skips
        self._parse = _PARSERS[format_version]
        self._roles = tuple(zip(Columns._fields, outbox.columns, strict=True))
        self._begin = _OUTSIDE
        self._ordinal = 0

    def decode(self, frame: bytes) -> Iterator[Event]:
        """None or one event in format version 2, all of a transaction in format version 1; those before a row that
        cannot be read come before the error.
        """
        if frame[:1] == b"w":
            for message in self._parse(frame):
                if (event := self._event(message)) is not None:
                    yield event
        elif frame[:1] == b"k":
            keepalive = parse_keepalive(frame)
            if self._begin is _OUTSIDE:
                yield Idle(keepalive.wal_end)
        else:
            raise ProtocolError(f"a frame of unknown kind {frame[:1]!r}")

    def _event(self, message: wal2json.Message) -> Event | None:
        match message:
            case wal2json.Insert():
                return self._row(message)
            case wal2json.EmittedMessage():
                return self._logical_message(message)
            case wal2json.TransactionBegin():
                self._enter(message)
                return None
            case wal2json.TransactionEnd():
                return self._leave(message)

    def _enter(self, begin: wal2json.TransactionBegin) -> None:
        if self._begin is not _OUTSIDE:
            raise ProtocolError("a transaction begins inside another", lsn=begin.commit_lsn)
        self._begin = begin
        self._ordinal = 0

    def _leave(self, commit: wal2json.TransactionEnd) -> Event:
        if self._begin is _OUTSIDE or commit.commit_lsn != self._begin.commit_lsn:
            raise ProtocolError("a commit that is not that of the open transaction", lsn=commit.commit_lsn)
        self._begin = _OUTSIDE
        return Committed(commit.end_lsn) if self._ordinal else Idle(commit.end_lsn)

    def _row(self, row: wal2json.Insert) -> Event | None:
        if self._begin is _OUTSIDE:
            raise ProtocolError(f"a row of {row.schema}.{row.table} outside any transaction")
        if row.table != self._outbox.table or row.schema != self._outbox.schema:
            return None
        try:
            values = row.columns
            fields = [None if column is None else self._field(role, column, values) for role, column in self._roles]
            if fields[0] is None:
                raise null_id(self._outbox, self._position())
            extra = {column: self._extra(column, values) for column in self._outbox.extra} or NO_COLUMNS
        except (Undecodable, ProtocolError) as error:
            return self._fails(error)
        return self._record(fields, extra)

    def _fails(self, error: WalrelayError) -> Event:
        """A row that cannot be read has an ordinal all the same: later rows keep theirs."""
        skipped = skipped_or_raise(self._skips, self._begin.commit_lsn, self._ordinal, error)
        self._ordinal += 1
        return skipped

    def _field(self, role: str | None, column: str, row: dict[str, wal2json.Value]) -> bytes | None:
        if column not in row:
            if role in self._outbox.optional:
                return None
            raise missing_column(self._outbox, role, column, row, self._position())
        type_oid, text = row[column]
        if text is None and type_oid in wal2json.NULL_OR_NAN and role not in self._outbox.optional:
            raise self._null_or_nan(role, column)
        if text is not None and type_oid == wal2json.BYTEA and role == "payload":
            try:
                return unhex(text)
            except ValueError as cause:
                id_ = row.get(self._outbox.columns.id or "", (0, None))[1]
                raise unreadable_value(
                    *(self._outbox, column, self._position(), None if id_ is None else as_text(id_), str(cause))
                ) from cause
        return text

    def _extra(self, column: str, row: dict[str, wal2json.Value]) -> str | None:
        value = self._field(None, column, row)
        return None if value is None else as_text(value)

    def _logical_message(self, message: wal2json.EmittedMessage) -> Event | None:
        if message.prefix != self._outbox.prefix:
            return None
        if not message.transactional:
            if self._outbox.skip_non_transactional:
                return Skipped(message.lsn, NOT_TRANSACTIONAL)
            return skipped_or_raise(self._skips, message.lsn, None, not_transactional(message.prefix, str(message.lsn)))
        if self._begin is _OUTSIDE:
            raise ProtocolError("a transactional message outside any transaction", lsn=message.lsn)
        commit_lsn, committed_at = self._begin
        event = message_event(message.content, commit_lsn, self._ordinal, committed_at, self._outbox, self._skips)
        self._ordinal += 1
        return event

    def _record(self, fields: list[bytes | None], columns: Mapping[str, str | None]) -> OutboxRecord:
        record = record_of(self._begin.commit_lsn, self._ordinal, self._begin.committed_at, fields, columns)
        self._ordinal += 1
        return record

    def _position(self) -> str:
        return str(RecordPosition(self._begin.commit_lsn, self._ordinal))

    def _null_or_nan(self, role: str | None, column: str) -> Undecodable:
        outbox = self._outbox
        named, needed = "", "take it out of `routes`"
        if role:
            named, needed = f", role {role},", f"set outbox.columns.{role} to null if it is not needed"
        return Undecodable(
            f"column {column!r} of {outbox.schema}.{outbox.table}{named} is null at {self._position()}:"
            " wal2json prints NaN and Infinity of a numeric or floating-point type as null, so it may not be NULL",
            hint=f"Read with the output plugin pgoutput, which tells them apart; or declare {column!r} as text or an"
            f" integer type; or {needed}.",
        )
