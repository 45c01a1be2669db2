"""Column values to OutboxRecords: of the stream, where both output plugins find the roles' values, and of the table.

Binary values become the text that PostgreSQL would print, for the types an outbox column usually has; a type that is
not in PRINTERS is not guessed at: such a table is read in text mode. Every type there has a send function, so in
binary mode the server never falls back to text for it (pgoutput: logicalrep_write_tuple).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from operator import itemgetter, methodcaller
from typing import Any

from walrelay.decode.contract import Columns, OutboxLayout, Skips
from walrelay.errors import Undecodable, WalrelayError
from walrelay.lsn import LSN, ZERO
from walrelay.model import NO_COLUMNS, OutboxRecord, RecordPosition, Skipped

NOT_TRANSACTIONAL = "a logical message with the prefix of the outbox that was sent outside a transaction"

BYTES_ROLES = frozenset({"payload", "headers"})

as_text: Callable[[bytes], str] = methodcaller("decode", "utf-8", "surrogateescape")
"""bytes -> str, reversible for any bytes: a SQL_ASCII database may hold what is not UTF-8."""


def skipped_or_raise(skips: Skips, lsn: LSN, ordinal: int | None, error: WalrelayError) -> Skipped:
    """For a row that cannot be read: raises `error`, unless the operator named its position."""
    if not is_skipped(skips, lsn, ordinal):
        raise error from None
    return skipped(lsn, ordinal, error)


def is_skipped(skips: Skips, lsn: LSN, ordinal: int | None) -> bool:
    """Whether that position was named, or the whole transaction."""
    return (lsn, ordinal) in skips or (lsn, None) in skips


def skipped(lsn: LSN, ordinal: int | None, error: WalrelayError) -> Skipped:
    where = RecordPosition(lsn, ordinal)
    return Skipped(lsn, f"{where} is skipped in walrelay.dead_letters, and cannot be read: {error}", ordinal)


def record_of(
    commit_lsn: LSN,
    ordinal: int,
    committed_at: int,
    fields: Iterable[bytes | None],
    columns: Mapping[str, str | None] = NO_COLUMNS,
) -> OutboxRecord:
    """`fields`: one per role in the order of Columns, as text; the id must not be None. `columns`: those without a role
    that are read.
    """
    values: list[Any] = [
        value if value is None or role in BYTES_ROLES else as_text(value)
        for role, value in zip(Columns._fields, fields, strict=True)
    ]
    return OutboxRecord._make((commit_lsn, ordinal, committed_at, *values, columns))


def unhex(text: bytes) -> bytes:
    r"""The bytes of a bytea's hex text, which begins with `\x` (bytea_output is set to hex)."""
    if text[:2] != b"\\x":
        raise ValueError("bytea text does not begin with \\x")
    return bytes.fromhex(text[2:].decode("ascii"))


def missing_column(
    outbox: OutboxLayout, role: str | None, column: str, present: Iterable[str], where: str
) -> Undecodable:
    """The error for a column that the table does not have, or no longer has. `role`: None for one that a rule names."""
    if role is None:
        return Undecodable(
            f"table {outbox.schema}.{outbox.table} has no column {column!r} at {where}, which a rule names; it has:"
            f" {', '.join(present)}",
            hint=f"Correct `route` or `routes`, which name column.{column}. Nothing past this point was confirmed."
            f" (A generated column, or one outside the publication's column list, is not in the stream.){_skip(where)}",
        )
    return Undecodable(
        f"table {outbox.schema}.{outbox.table} has no column {column!r} for the role {role} at {where};"
        f" it has: {', '.join(present)}",
        hint=f"Set outbox.columns.{role} to the right column, or to null if the table has none. Nothing past this"
        " point was confirmed. (A generated column, or one outside the publication's column list, is not in"
        f" the stream.){_skip(where)}",
    )


def _skip(where: str) -> str:
    """`where`: a position in the stream, or words."""
    if "/" not in where:
        return ""
    return f" A row that is in the WAL stays as it was written; to skip it: `walrelay skip --position {where}`"


def unreadable_value(outbox: OutboxLayout, column: str, where: str, id_: str | None, why: str) -> Undecodable:
    """The error for a value that its type cannot have, as the server sends it."""
    return Undecodable(
        f"column {column!r} of {outbox.schema}.{outbox.table} cannot be read in the row with id {id_ or '?'}"
        f" at {where}: {why}",
        hint=f"Nothing past this point was confirmed. Please report it, with the type of the column.{_skip(where)}",
    )


def null_id(outbox: OutboxLayout, where: str) -> Undecodable:
    """The error for a row whose id is NULL: consumers could not recognize a repetition."""
    return Undecodable(
        f"a row of {outbox.schema}.{outbox.table} at {where} has no id ({outbox.columns.id} is NULL)",
        hint=f"Declare {outbox.columns.id!r} NOT NULL, so that no further one comes, or map outbox.columns.id to a"
        f" column that identifies the event.{_skip(where)}",
    )


def not_transactional(prefix: str, where: str) -> Undecodable:
    """The error for a non-transactional logical message with our prefix."""
    return Undecodable(
        f"a non-transactional logical message with the prefix {prefix!r} at {where}: it was sent at once, even if"
        " its transaction rolled back, so it is not an outbox record",
        hint="Call pg_logical_emit_message with transactional = true. To skip such messages with a note in"
        " the log, set outbox.messages.non_transactional to skip.",
    )


BOOL, BYTEA, NAME, INT8, INT2, INT4, TEXT, JSON = 16, 17, 19, 20, 21, 23, 25, 114
BPCHAR, VARCHAR, TIMESTAMP, TIMESTAMPTZ, UUID, JSONB = 1042, 1043, 1114, 1184, 2950, 3802

_EPOCH = datetime(2000, 1, 1)
_DAY = 86_400_000_000  # microseconds
_ERA = 146_097  # days of 400 years


def _jsonb(value: bytes) -> str:
    return as_text(json_text(value))


def json_text(value: bytes) -> bytes:
    """The text of a jsonb value, without its version; only version 1 is known."""
    if not value.startswith(b"\x01"):
        raise ValueError(f"jsonb of version {value[:1]!r}, only 1 is known")
    return value[1:]


_UUID_PARTS = itemgetter(slice(8), slice(8, 12), slice(12, 16), slice(16, 20), slice(20, None))


def _uuid(value: bytes) -> str:
    if len(value) != 16:
        raise ValueError(f"a uuid of {len(value)} bytes")
    return "-".join(_UUID_PARTS(value.hex()))


def _integer(size: int) -> Callable[[bytes], str]:
    def text(value: bytes) -> str:
        if len(value) != size:
            raise ValueError(f"an int{size} of {len(value)} bytes")
        return str(int.from_bytes(value, signed=True))

    return text


def _bool(value: bytes) -> str:
    if value not in (b"\x00", b"\x01"):
        raise ValueError(f"a boolean that is {value!r}")
    return "t" if value == b"\x01" else "f"


def _timestamp(zone: str) -> Callable[[bytes], str]:
    def text(value: bytes) -> str:
        if len(value) != 8:
            raise ValueError(f"a timestamp of {len(value)} bytes")
        microseconds = int.from_bytes(value, signed=True)
        if microseconds in (2**63 - 1, -(2**63)):
            return "infinity" if microseconds > 0 else "-infinity"
        days, rest = divmod(microseconds, _DAY)
        era, day = divmod(days, _ERA)  # Python knows the years 1 to 9999 only; 400 years later the calendar is the same
        moment = _EPOCH + timedelta(days=day, microseconds=rest)
        year = moment.year + 400 * era
        printed = f"{year if year > 0 else 1 - year:04}{moment.isoformat(' ')[4:]}"
        return (printed.rstrip("0") if moment.microsecond else printed) + zone + ("" if year > 0 else " BC")

    return text


BINARY_PRINTERS: dict[int, Callable[[bytes], str]] = {
    BOOL: _bool,
    BYTEA: lambda value: "\\x" + value.hex(),
    NAME: as_text,
    INT8: _integer(8),
    INT2: _integer(2),
    INT4: _integer(4),
    TEXT: as_text,
    JSON: as_text,
    BPCHAR: as_text,
    VARCHAR: as_text,
    TIMESTAMP: _timestamp(""),
    TIMESTAMPTZ: _timestamp("+00"),  # the walsender's TimeZone is forced to UTC
    UUID: _uuid,
    JSONB: _jsonb,
}
"""type OID -> printer. OIDs of built-in types are part of PostgreSQL's interface and never change."""


_BELOW = 2  # bytes


def is_from_table(commit_lsn: LSN) -> bool:
    """Whether a message with this commit LSN was made from the table, by a backfill or a replay."""
    return commit_lsn == ZERO or commit_lsn % 8 == 8 - _BELOW


class RowDecoder:
    """Numbers the rows of one reading. Their commit LSN is one that no transaction has, just below the slot's first.

    Commits begin at multiples of 8, and one may begin at the consistent point; wal2json's format version 1 gives a
    commit's last byte. So positions are unique, and grow from the rows to the stream.
    """

    def __init__(self, outbox: OutboxLayout, types: Mapping[str, int], consistent_point: LSN, first: int = 0) -> None:
        """`first`: the number of the first row."""
        self._outbox = outbox
        self._commit_lsn = LSN(max(ZERO, consistent_point - _BELOW))
        self._ordinal = first
        self.columns: list[str] = []
        self._readers: list[tuple[int, Callable[[bytes], Any]] | None] = []  # for each role: column, and its reader
        for role, column in zip(Columns._fields, outbox.columns, strict=True):
            self._readers.append(None if column is None else self._reader(role, column, types))
        self._extra = [(column, self._reader(None, column, types)) for column in outbox.extra]

    def decode(self, values: Sequence[bytes | None], committed_at: int) -> OutboxRecord:
        """`values` are the texts of `columns`."""
        record = self.naming(values, committed_at)
        if record.id is None:
            raise null_id(self._outbox, record.position)
        self._ordinal += 1
        return record

    def naming(self, values: Sequence[bytes | None], committed_at: int = 0) -> OutboxRecord:
        """`decode`, for routing only: the id need not be among the columns."""
        roles: list[Any] = [
            None if reader is None or (value := values[reader[0]]) is None else reader[1](value)
            for reader in self._readers
        ]
        columns = {
            column: None if (value := values[place]) is None else read(value) for column, (place, read) in self._extra
        }
        return OutboxRecord._make((self._commit_lsn, self._ordinal, committed_at, *roles, columns or NO_COLUMNS))

    def _reader(self, role: str | None, column: str, types: Mapping[str, int]) -> tuple[int, Callable[[bytes], Any]]:
        if column not in types:
            raise missing_column(self._outbox, role, column, types, "the start of the backfill")
        self.columns.append(column)
        if role not in BYTES_ROLES:
            return len(self.columns) - 1, as_text
        return len(self.columns) - 1, unhex if role == "payload" and types[column] == BYTEA else bytes
