"""The messages of the output plugin wal2json, format versions 1 and 2, as values; and the options that ask for them.

Read in wal2json.c 2.5 and 2.6, run with both (tests/golden/wal2json). Format 2 is one JSON object a change, between
one for Begin and one for Commit. Format 1 is one object a transaction, built whole in the server's memory (it fails
for ever on a transaction of 1 GB of JSON: wal2json issue 46); here it comes out as the same sequence of values. What
the two say, and what they do not:

- Format 2 has the commit record's start (`lsn` of B and C) and end (`nextlsn`). Format 1 has the end only, and no
  frame's header helps (it is the first change's LSN). The end itself would not do as `commit_lsn`, because the next
  transaction's commit can start there; so format 1's is the end less one byte: inside the commit record, where no
  other record starts, and in the right order among the positions of the other formats.
- The text is in the DATABASE's encoding, whatever client_encoding says: only UTF8 and SQL_ASCII databases can be
  read. A partition's rows come under the partition's name. A wrong name in add-tables is silence, not an error.
- bytea is hex without its `\\x` (the plugin cuts two characters off: bytea_output must be hex), numbers are bare with
  PostgreSQL's own digits, NaN and Infinity of numeric, real and double precision are printed as null.
- A logical message's content ends at its first NUL, and is printed even if it is not UTF-8.
"""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, NamedTuple

from walrelay.errors import ProtocolError
from walrelay.lsn import LSN
from walrelay.wire.frames import BODY

BYTEA = 17
NULL_OR_NAN = frozenset({700, 701, 1700})
"""float4, float8, numeric: a null of these types may have been NaN or an infinity."""

# 2.5 and older print this after a transaction of two changes or more; 2.6 does not (pg_decode_message_v1)
_COMMA_TOO_MANY = b'{"change":[,{"kind":"message","transactional":false,'

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NEXTLSN = re.compile(rb'\{"xid":\d+,"nextlsn":"([0-9A-F]+/[0-9A-F]+)"')
_SPECIAL = re.compile(r"[\\,.*\s]", re.ASCII)


class TransactionBegin(NamedTuple):
    """`commit_lsn` is where the commit record starts (format 1: ends); `committed_at` is in microseconds since 1970."""

    commit_lsn: LSN
    committed_at: int


class TransactionEnd(NamedTuple):
    """`end_lsn` is the end of the commit record: the position to confirm."""

    commit_lsn: LSN
    end_lsn: LSN


Value = tuple[int, bytes | None]
"""A column's type OID and its text, as PostgreSQL's output function prints it; None for null."""


class Insert(NamedTuple):
    """A row of `schema`.`table`, by column name in the table's order."""

    schema: str
    table: str
    columns: dict[str, Value]


class EmittedMessage(NamedTuple):
    """What `pg_logical_emit_message` wrote; a non-transactional message is outside any transaction."""

    transactional: bool
    lsn: LSN
    prefix: str
    content: bytes


Message = TransactionBegin | TransactionEnd | Insert | EmittedMessage


def options(format_version: int, schema: str, table: str) -> list[tuple[str, str]]:
    """The options of START_REPLICATION for the inserts into one table and all logical messages.

    Types are requested as OIDs: for a type like "Odd Schema".mood the plugin prints a type name that breaks the JSON.
    Every release since 2.0 has all these options.
    """
    return [
        ("format-version", str(format_version)),
        ("include-transaction", "true"),
        ("include-lsn", "true"),
        ("include-xids", "true"),
        ("include-timestamp", "true"),
        ("include-types", "false"),
        ("include-type-oids", "true"),
        ("add-tables", f"{_escaped(schema)}.{_escaped(table)}"),
        ("actions", "insert"),
    ]


def plain_options(schema: str, table: str) -> list[tuple[str, str]]:
    """Options to print the inserts into one table, and all logical messages, as format version 2 does by default."""
    return [("format-version", "2"), ("add-tables", f"{_escaped(schema)}.{_escaped(table)}"), ("actions", "insert")]


def _escaped(name: str) -> str:
    """`name` for add-tables, where commas and blanks separate items, a dot separates schema and table, and a lone `*`
    means everything.
    """
    return _SPECIAL.sub(r"\\\g<0>", name)


def parse_line(frame: bytes) -> Sequence[Message]:
    """The message in an XLogData `frame` of format version 2: one, or none for a change that is not an insert."""
    return _parsed(_line, frame, frame[BODY:])


def end_lsn(frame: bytes) -> bytes:
    """How far into the WAL an XLogData `frame` goes, as eight bytes. In format version 1 the header has the
    transaction's first change, and only the message has its end.
    """
    found = _NEXTLSN.match(frame, BODY)
    return LSN.parse(found[1].decode()).to_bytes(8) if found else frame[9:17]


def parse_transaction(frame: bytes) -> Sequence[Message]:
    """The messages in an XLogData `frame` of format version 1: Begin to Commit, or one non-transactional message."""
    body = frame[BODY:]
    if body.startswith(_COMMA_TOO_MANY):
        body = body.replace(b",", b"", 1)
    return _parsed(_transaction, frame, body)


def _parsed(read: Callable[[object, LSN], Sequence[Message]], frame: bytes, body: bytes) -> Sequence[Message]:
    lsn = LSN.from_bytes(frame[1:9])
    try:
        return read(_DECODER.decode(str(body, "utf-8", "surrogateescape")), lsn)
    except (ValueError, KeyError, TypeError, RecursionError) as cause:  # TypeError: also a clock without its zone
        raise ProtocolError(
            f"a wal2json message that cannot be read: {type(cause).__name__} {cause}", lsn=lsn
        ) from cause


def _line(message: object, lsn: LSN) -> Sequence[Message]:
    match message:
        case {"action": "I", "schema": str(schema), "table": str(table), "columns": list(columns)}:
            entries = ((entry["name"], entry["typeoid"], entry["value"]) for entry in columns)
            return (Insert(schema, table, _columns(entries)),)
        case {"action": "B", "lsn": str(commit_lsn), "timestamp": str(timestamp)}:
            return (TransactionBegin(LSN.parse(commit_lsn), _microseconds(timestamp)),)
        case {"action": "C", "lsn": str(commit_lsn), "nextlsn": str(end_lsn)}:
            return (_commit(LSN.parse(commit_lsn), LSN.parse(end_lsn)),)
        case {"action": "M"}:
            return (_logical_message(message, lsn),)
        case {"action": "U" | "D" | "T"}:
            return ()
        case _:
            raise ValueError(_unexpected(message))


def _transaction(message: object, lsn: LSN) -> Sequence[Message]:
    match message:
        case {"nextlsn": str(end_lsn), "timestamp": str(timestamp), "change": list(changes)}:
            end = LSN.parse(end_lsn)
            inside = [value for change in changes for value in _change(change, lsn)]
            if any(isinstance(value, EmittedMessage) and not value.transactional for value in inside):
                raise ValueError("a non-transactional message inside a transaction")
            return (
                TransactionBegin(LSN(end - 1), _microseconds(timestamp)),
                *inside,
                TransactionEnd(LSN(end - 1), end),
            )
        case {"change": [{"kind": "message", "transactional": False} as only], **rest} if not rest:
            return (_logical_message(only, lsn),)
        case _:
            raise ValueError(_unexpected(message))


def _change(change: object, lsn: LSN) -> Sequence[Message]:
    match change:
        case {
            "kind": "insert",
            "schema": str(schema),
            "table": str(table),
            "columnnames": list(names),
            "columntypeoids": list(oids),
            "columnvalues": list(values),
        }:
            return (Insert(schema, table, _columns(zip(names, oids, values, strict=True))),)
        case {"kind": "message"}:
            return (_logical_message(change, lsn),)
        case {"kind": "update" | "delete"}:
            return ()
        case _:
            raise ValueError(_unexpected(change))


def _logical_message(message: object, lsn: LSN) -> EmittedMessage:
    match message:
        case {"transactional": bool(transactional), "prefix": str(prefix), "content": str(content)}:
            return EmittedMessage(transactional, lsn, prefix, content.encode("utf-8", "surrogateescape"))
        case _:
            raise ValueError(_unexpected(message))


def _columns(columns: Iterable[tuple[Any, Any, Any]]) -> dict[str, Value]:
    """Name, type OID and value of each column, as a Python dict of the text PostgreSQL prints.

    The innermost loop of this plugin: a `match` here took half of the decoder's time.
    """
    row: dict[str, Value] = {}
    count = 0
    for name, oid, value in columns:
        count += 1
        type_oid = _type_oid(oid)
        if type(value) is str:
            value = value.encode("utf-8", "surrogateescape")
            if type_oid == BYTEA:
                value = b"\\x" + value
        elif type(value) is bool:
            value = b"t" if value else b"f"
        elif value is not None and type(value) is not bytes:
            raise ValueError(f"the column {name!r} has a {type(value).__name__} as its value")
        row[name] = type_oid, value
    if len(row) != count or not all(type(name) is str for name in row):
        raise ValueError("a column is there twice, or its name is no string")
    return row


@lru_cache(maxsize=256)
def _type_oid(number: object) -> int:
    if not isinstance(number, bytes):
        raise ValueError("a type OID is no number")
    return int(number) % 2**32  # format 2 prints it signed


def _commit(commit_lsn: LSN, end_lsn: LSN) -> TransactionEnd:
    if not commit_lsn < end_lsn:
        raise ValueError(f"a commit at {commit_lsn} ends at {end_lsn}, not after its start")
    return TransactionEnd(commit_lsn, end_lsn)


def _microseconds(timestamp: str) -> int:
    """The Unix time of `2026-11-21 09:58:54.95604+00`; ISO under any DateStyle, in the session's TimeZone."""
    return (datetime.fromisoformat(timestamp) - _EPOCH) // timedelta(microseconds=1)


# A number keeps its digits, as bytes: so it is never confused with a JSON string. Python's
# NaN, which is no JSON, comes out as a float and is no value of any kind below.
_DECODER = json.JSONDecoder(parse_float=str.encode, parse_int=str.encode)


def _unexpected(what: object) -> str:
    """Keys, never values: error texts may go where a payload must not."""
    if not isinstance(what, dict):
        return f"a {type(what).__name__} where an object should be"
    kind = what.get("action", what.get("kind"))
    return f"the format version has no object of kind {kind!r} with the keys {', '.join(map(repr, what))}"
