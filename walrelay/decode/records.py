"""Column values to an OutboxRecord: what both output plugins share once they have found the roles' values."""

from collections.abc import Callable, Iterable
from operator import methodcaller
from typing import Any

from walrelay.decode.contract import Columns, Outbox, Skips
from walrelay.errors import Undecodable, WalrelayError
from walrelay.lsn import LSN
from walrelay.model import OutboxRecord, RecordPosition, Skipped

NOT_TRANSACTIONAL = "a logical message with our prefix that is not transactional"

BYTES_ROLES = frozenset({"payload", "headers"})

as_text: Callable[[bytes], str] = methodcaller("decode", "utf-8", "surrogateescape")
"""bytes -> str, reversible for any bytes: a SQL_ASCII database may hold what is not UTF-8."""


def passed_over(skips: Skips, lsn: LSN, ordinal: int | None, error: WalrelayError) -> Skipped:
    """What becomes of a row that cannot be read: `error`, unless the operator named its position."""
    if not is_skipped(skips, lsn, ordinal):
        raise error from None
    return skipped(lsn, ordinal, error)


def is_skipped(skips: Skips, lsn: LSN, ordinal: int | None) -> bool:
    """Whether that position was named, or the whole transaction."""
    return (lsn, ordinal) in skips or (lsn, None) in skips


def skipped(lsn: LSN, ordinal: int | None, error: WalrelayError) -> Skipped:
    """What is passed over because it was named."""
    where = RecordPosition(lsn, ordinal)
    return Skipped(lsn, f"{where} is skipped in walrelay.dead_letters, and cannot be read: {error}", ordinal)


def record_of(commit_lsn: LSN, ordinal: int, committed_at: int, fields: Iterable[bytes | None]) -> OutboxRecord:
    """The record of `fields`, one per role in the order of Columns, as text; the id must not be None."""
    values: list[Any] = [
        value if value is None or role in BYTES_ROLES else as_text(value)
        for role, value in zip(Columns._fields, fields, strict=True)
    ]
    return OutboxRecord(commit_lsn, ordinal, committed_at, *values)


def unhex(text: bytes) -> bytes:
    r"""The bytes of a bytea in hex text, `\x` first (bytea_output is forced to hex)."""
    if text[:2] != b"\\x":
        raise ValueError("bytea text does not begin with \\x")
    return bytes.fromhex(text[2:].decode("ascii"))


def missing_column(outbox: Outbox, role: str, column: str, present: Iterable[str], where: str) -> Undecodable:
    """The error for a role whose column the table does not have (any more)."""
    return Undecodable(
        f"table {outbox.schema}.{outbox.table} has no column {column!r} for the role {role} at {where};"
        f" it has: {', '.join(present)}",
        hint=f"Set outbox.columns.{role} to the right column, or to null if the table has none. Nothing past this"
        " point was confirmed. (A generated column, or one outside the publication's column list, is not in"
        f" the stream.){_skip(where)}",
    )


def _skip(where: str) -> str:
    """`where` is a position in the stream, or words."""
    if "/" not in where:
        return ""
    return f" A row that is in the WAL stays as it was written; to pass over it: `walrelay skip --position {where}`"


def unreadable(outbox: Outbox, column: str, where: str, id_: str | None, why: str) -> Undecodable:
    """The error for a value that is none of its column's type, as the server sends it."""
    return Undecodable(
        f"column {column!r} of {outbox.schema}.{outbox.table} cannot be read in the row with id {id_ or '?'}"
        f" at {where}: {why}",
        hint=f"Nothing past this point was confirmed. Please report it, with the type of the column.{_skip(where)}",
    )


def null_id(outbox: Outbox, where: str) -> Undecodable:
    """The error for a row whose id is NULL: consumers could not tell it from a repetition."""
    return Undecodable(
        f"a row of {outbox.schema}.{outbox.table} at {where} has no id ({outbox.columns.id} is NULL)",
        hint=f"Declare {outbox.columns.id!r} NOT NULL, so that no further one comes, or map outbox.columns.id to a"
        f" column that identifies the event.{_skip(where)}",
    )


def not_transactional(prefix: str, where: str) -> Undecodable:
    """The error for a logical message with our prefix that no transaction stands behind."""
    return Undecodable(
        f"a non-transactional logical message with the prefix {prefix!r} at {where}: it was sent at once, even if"
        " its transaction rolled back, so it is not an outbox record",
        hint="Call pg_logical_emit_message with transactional = true. To pass over such messages with a note in"
        " the log, set outbox.messages.non_transactional to skip.",
    )
