"""The messages of the output plugin pgoutput, protocol version 1 (manual: protocol-logicalrep-message-formats).

Version 1 sends committed transactions only, each whole and in commit order: Begin, then Relation before the first
row of a table (and again after any change to it), Insert, Message ..., Commit. Functions take the whole frame; the
message begins at BODY. They return values or raise ProtocolError, whatever the bytes are.
"""

from collections.abc import Callable, Sequence
from struct import Struct, error
from typing import Any, NamedTuple

from walrelay.errors import ProtocolError
from walrelay.lsn import LSN
from walrelay.wire.frames import BODY, POSTGRES_EPOCH_US

BEGIN, COMMIT, ORIGIN, RELATION, TYPE, INSERT, UPDATE, DELETE, TRUNCATE, MESSAGE = b"BCORYIUDTM"

NULL, TEXT, BINARY = b"ntb"  # what a column of a row is
_NEW = ord("N")

_BEGIN = Struct(">QqI")
_COMMIT = Struct(">BQQq")
_COLUMN = Struct(">Ii")
_MESSAGE = Struct(">BQ")
_insert = Struct(">IBH").unpack_from
unpack_length = Struct(">I").unpack_from

ROW = BODY + 8  # where the first column of an Insert begins
INSERT_HEAD = slice(BODY, ROW)


class Begin(NamedTuple):
    """`final_lsn` is where the commit record starts; `committed_at` is in microseconds since 1970, UTC."""

    final_lsn: LSN
    committed_at: int
    xid: int


class Commit(NamedTuple):
    """`end_lsn` is the end of the commit record: the position to confirm, and the next one to begin at."""

    commit_lsn: LSN
    end_lsn: LSN
    committed_at: int


class Column(NamedTuple):
    name: str
    type_oid: int
    type_modifier: int


class Relation(NamedTuple):
    oid: int
    schema: str
    name: str
    columns: tuple[Column, ...]


class Type(NamedTuple):
    """The name that a type that is not built in had at that point of the WAL; for a domain, its base type's name."""

    oid: int
    schema: str
    name: str


class LogicalMessage(NamedTuple):
    """What `pg_logical_emit_message` wrote; a non-transactional message is outside any transaction."""

    transactional: bool
    lsn: LSN
    prefix: str
    content: bytes


def parse_begin(frame: bytes) -> Begin:
    if len(frame) != BODY + 1 + _BEGIN.size:
        raise ProtocolError(f"Begin has {_BEGIN.size} bytes, this one has {len(frame) - BODY - 1}")
    final_lsn, clock, xid = _BEGIN.unpack_from(frame, BODY + 1)
    return Begin(LSN(final_lsn), clock + POSTGRES_EPOCH_US, xid)


def parse_commit(frame: bytes) -> Commit:
    if len(frame) != BODY + 1 + _COMMIT.size:
        raise ProtocolError(f"Commit has {_COMMIT.size} bytes, this one has {len(frame) - BODY - 1}")
    _, commit_lsn, end_lsn, clock = _COMMIT.unpack_from(frame, BODY + 1)
    if not commit_lsn < end_lsn:
        raise ProtocolError(f"a commit ends at {LSN(end_lsn)}, not after its start", lsn=LSN(commit_lsn))
    return Commit(LSN(commit_lsn), LSN(end_lsn), clock + POSTGRES_EPOCH_US)


def parse_relation(frame: bytes) -> Relation:
    try:
        oid = int.from_bytes(frame[BODY + 1 : BODY + 5])
        schema, at = _string(frame, BODY + 5)
        name, at = _string(frame, at)
        count = int.from_bytes(frame[at + 1 : at + 3])  # after the replica identity
        at += 3
        columns = []
        for _ in range(count):
            column, at = _string(frame, at + 1)  # after the flags
            columns.append(Column(column, *_COLUMN.unpack_from(frame, at)))
            at += _COLUMN.size
    except (ValueError, error) as cause:
        raise ProtocolError(f"a Relation message that cannot be read: {cause}") from cause
    if at != len(frame):
        raise ProtocolError(f"a Relation message of {len(frame) - BODY} bytes that should have {at - BODY}")
    return Relation(oid, schema or "pg_catalog", name, tuple(columns))


def parse_type(frame: bytes) -> Type:
    try:
        schema, at = _string(frame, BODY + 5)
        name, at = _string(frame, at)
    except ValueError as cause:
        raise ProtocolError(f"a Type message that cannot be read: {cause}") from cause
    if at != len(frame):
        raise ProtocolError(f"a Type message of {len(frame) - BODY} bytes that should have {at - BODY}")
    return Type(int.from_bytes(frame[BODY + 1 : BODY + 5]), schema or "pg_catalog", name)


def parse_message(frame: bytes) -> LogicalMessage:
    try:
        flags, lsn = _MESSAGE.unpack_from(frame, BODY + 1)
        prefix, at = _string(frame, BODY + 1 + _MESSAGE.size)
    except (ValueError, error) as cause:
        raise ProtocolError(f"a logical message that cannot be read: {cause}") from cause
    content = frame[at + 4 :]
    if len(frame) < at + 4 or int.from_bytes(frame[at : at + 4]) != len(content):
        raise ProtocolError("a logical message whose length is not that of its content", lsn=LSN(lsn))
    return LogicalMessage(flags & 1 == 1, LSN(lsn), prefix, content)


def parse_insert(frame: bytes) -> tuple[int, int]:
    """The relation's OID and the number of columns of the Insert in `frame`."""
    try:
        oid, kind, columns = _insert(frame, BODY + 1)
    except error as cause:
        raise ProtocolError(f"an Insert of {len(frame) - BODY} bytes") from cause
    if kind != _NEW:
        raise ProtocolError("an Insert without a new row")
    return oid, columns


def insert_head(oid: int, columns: int) -> bytes:
    """What an Insert of that relation with so many columns has at INSERT_HEAD."""
    return b"I%bN%b" % (oid.to_bytes(4), columns.to_bytes(2))


def parse_row(frame: bytes, readers: Sequence[Callable[[bytes], Any] | None]) -> list[Any]:
    """The values of the Insert in `frame` whose columns have a reader, each as its reader made it of text or binary.

    `readers` has one entry for each column that `parse_insert` counted; None: the column is not needed. A reader raises
    ValueError for what it cannot read. The outbox's own rows are read by `row_parser`, which does the same.
    """
    values: list[Any] = []
    append, at = values.append, ROW
    try:
        for read in readers:
            kind = frame[at]
            if kind == TEXT or kind == BINARY:  # noqa: SIM109 (a tuple of globals would be built again each time)
                start = at + 5
                at = start + unpack_length(frame, at + 1)[0]
                if read is not None:
                    append(read(frame[start:at]))
            elif kind == NULL:
                at += 1
                if read is not None:
                    append(None)
            else:
                raise unreadable_kind(kind)
    except (IndexError, error):
        at = -1
    if at != len(frame):  # a slice past the end is silently short; the sum of the lengths is not
        raise row_does_not_fit(frame)
    return values


def unreadable_kind(kind: int) -> ProtocolError:
    """The error for a column of a kind that no Insert has; `u`, an unchanged TOAST value, occurs in updates only."""
    return ProtocolError(f"an Insert has a column of kind {chr(kind)!r}")


def row_does_not_fit(frame: bytes) -> ProtocolError:
    """The error for a row that is longer or shorter than its columns."""
    return ProtocolError(f"an Insert of {len(frame) - BODY} bytes whose columns do not fill it")


def _string(frame: bytes, at: int) -> tuple[str, int]:
    end = frame.index(0, at)
    return str(frame[at:end], "utf-8", "surrogateescape"), end + 1
