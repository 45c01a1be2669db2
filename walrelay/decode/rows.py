"""Rows that were read from the outbox table to records: the same ones as the stream's, their position apart."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from walrelay.decode.binary import BYTEA
from walrelay.decode.contract import Columns, Outbox
from walrelay.decode.records import BYTES_ROLES, as_text, missing_column, null_id, unhex
from walrelay.lsn import LSN, ZERO
from walrelay.model import OutboxRecord

_BELOW = 2  # bytes


def is_of_a_row(commit_lsn: LSN) -> bool:
    """Whether a message with this commit LSN was made from the table, by a backfill or a replay: no commit has it."""
    return commit_lsn == ZERO or commit_lsn % 8 == 8 - _BELOW


class RowDecoder:
    """Numbers the rows of one reading. Their commit LSN is one that no transaction has, just below the slot's first.

    Commits begin at multiples of 8, and one may begin at the very consistent point; the last byte of one is where
    wal2json's format version 1 says that it is. So positions are still unique, and grow from the rows to the stream.
    """

    def __init__(self, outbox: Outbox, types: Mapping[str, int], consistent_point: LSN, first: int = 0) -> None:
        """`first`: the number of the first row."""
        self._outbox = outbox
        self._commit_lsn = LSN(max(ZERO, consistent_point - _BELOW))
        self._ordinal = first
        self.columns: list[str] = []
        self._readers: list[tuple[int, Callable[[bytes], Any]] | None] = []  # for each role: column, and its reader
        for role, column in zip(Columns._fields, outbox.columns, strict=True):
            self._readers.append(None if column is None else self._reader(role, column, types))

    def decode(self, values: Sequence[bytes | None], committed_at: int) -> OutboxRecord:
        """The record of a row; `values` are the texts of `columns`."""
        record = self.naming(values, committed_at)
        if record.id is None:
            raise null_id(self._outbox, record.position)
        self._ordinal += 1
        return record

    def naming(self, values: Sequence[bytes | None], committed_at: int = 0) -> OutboxRecord:
        """As `decode`, for routing only: the id need not be among the columns."""
        roles: list[Any] = [
            None if reader is None or (value := values[reader[0]]) is None else reader[1](value)
            for reader in self._readers
        ]
        return OutboxRecord(self._commit_lsn, self._ordinal, committed_at, *roles)

    def _reader(self, role: str, column: str, types: Mapping[str, int]) -> tuple[int, Callable[[bytes], Any]]:
        if column not in types:
            raise missing_column(self._outbox, role, column, types, "the start of the backfill")
        self.columns.append(column)
        if role not in BYTES_ROLES:
            return len(self.columns) - 1, as_text
        return len(self.columns) - 1, unhex if role == "payload" and types[column] == BYTEA else bytes
