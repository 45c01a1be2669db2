"""The server's side of pgoutput, written from the manual (protocol-logicalrep-message-formats), not from the decoder.

Each function returns the body of one XLogData frame; `walrelay.wire.frames.xlogdata` puts the header around it.
"""

from collections.abc import Iterable, Sequence
from struct import pack

POSTGRES_EPOCH_US = 946_684_800_000_000

Value = bytes | None


def begin(final_lsn: int, *, committed_at: int = POSTGRES_EPOCH_US, xid: int = 700) -> bytes:
    return b"B" + pack(">QqI", final_lsn, committed_at - POSTGRES_EPOCH_US, xid)


def commit(commit_lsn: int, end_lsn: int, *, committed_at: int = POSTGRES_EPOCH_US) -> bytes:
    return b"C" + pack(">BQQq", 0, commit_lsn, end_lsn, committed_at - POSTGRES_EPOCH_US)


def relation(oid: int, schema: str, name: str, columns: Iterable[tuple[str, int]]) -> bytes:
    """`columns` are names and type OIDs; the first is said to be the key."""
    listed = [
        pack(">B", index == 0) + _string(column) + pack(">Ii", type_oid, -1)
        for index, (column, type_oid) in enumerate(columns)
    ]
    return b"R" + pack(">I", oid) + _string(schema) + _string(name) + b"d" + pack(">H", len(listed)) + b"".join(listed)


def insert(oid: int, values: Sequence[Value], *, kind: bytes = b"t") -> bytes:
    """`kind` is b"t" for text and b"b" for binary values; None is NULL."""
    return b"I" + pack(">I", oid) + b"N" + row(values, kind=kind)


def row(values: Sequence[Value], *, kind: bytes = b"t") -> bytes:
    """The TupleData of an Insert."""
    columns = [b"n" if value is None else kind + pack(">I", len(value)) + value for value in values]
    return pack(">H", len(columns)) + b"".join(columns)


def message(prefix: str, content: bytes, *, lsn: int = 0, transactional: bool = True) -> bytes:
    return b"M" + pack(">BQ", transactional, lsn) + _string(prefix) + pack(">I", len(content)) + content


def origin(commit_lsn: int, name: str) -> bytes:
    return b"O" + pack(">Q", commit_lsn) + _string(name)


def data_type(oid: int, schema: str, name: str) -> bytes:
    return b"Y" + pack(">I", oid) + _string(schema) + _string(name)


def update(oid: int, values: Sequence[Value]) -> bytes:
    return b"U" + pack(">I", oid) + b"N" + row(values)


def delete(oid: int, values: Sequence[Value]) -> bytes:
    return b"D" + pack(">I", oid) + b"K" + row(values)


def truncate(*oids: int) -> bytes:
    return b"T" + pack(">IB", len(oids), 0) + b"".join(pack(">I", oid) for oid in oids)


def _string(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape") + b"\0"
