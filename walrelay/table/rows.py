"""The outbox's selected rows in a snapshot, in order and in batches."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from walrelay.postgres.snapshot import View
from walrelay.table.description import COMMIT, OutboxTable, quoted
from walrelay.table.selection import Selection, behind, where

BATCH_ROWS = 2000
BATCH_BYTES = 4 * 2**20

_INT8, _BOOL = 20, 16


class Row(NamedTuple):
    """`values` of the columns that were asked for; `committed_at` in microseconds since 1970, as far as one knows.

    `passed`: it comes after all that was reached before.
    """

    values: tuple[bytes | None, ...]
    committed_at: int
    key: tuple[bytes | None, ...]
    passed: bool


class Lying(NamedTuple):
    """A row as it lies: values of columns, when it was committed, as far as is known, and whether a condition holds."""

    values: tuple[bytes | None, ...]
    committed_at: int | None
    flag: bool


def in_commit_order(view: View, table: OutboxTable, selection: Selection) -> OutboxTable:
    """Ordered by commit timestamps as well, if the server has those of all rows of the selection.

    It forgets old ones, and a row whose timestamp goes would move to the front, where nobody would look for it.
    """
    if not table.commits:
        return table
    rows = OutboxRows(view, table, selection)
    ((all_known,),) = rows.ask(f"count(*) = count({COMMIT.expression})")
    return table._replace(order=(COMMIT, *table.order)) if all_known else table


class OutboxRows:
    """The selected rows of the table in one snapshot."""

    def __init__(self, view: View, table: OutboxTable, selection: Selection) -> None:
        self._view, self._table = view, table
        self._where, self._parameters = where(table, selection, view.xmax)
        self._reached = selection.reached

    def count(self) -> int:
        """How many there are."""
        ((count,),) = self._view.rows(f"SELECT count(*) {self._from}", self._parameters)
        return int(count)

    def ask(self, expressions: str, clauses: str = "") -> list[tuple[Any, ...]]:
        """`SELECT expressions` over them; the row is `o`."""
        return self._view.rows(f"SELECT {expressions} {self._from} {clauses}", self._parameters)

    def distinct(self, columns: Sequence[str]) -> Iterator[tuple[bytes | None, ...]]:
        """Each combination of the columns' values once, as PostgreSQL prints them."""
        if not columns:
            return iter([()])
        listed = ", ".join(f"o.{quoted(column)}" for column in columns)
        types = [self._table.types[column] for column in columns]
        return self._view.stream(f"SELECT DISTINCT {listed} {self._from}", self._parameters, types)

    def groups(self, columns: Sequence[str]) -> Iterator[tuple[bytes | None, ...]]:
        """As `distinct`, each with the number of its rows, and the times of the first and the last in microseconds."""
        listed = [f"o.{quoted(column)}" for column in columns]
        time = _microseconds(self._table.time)
        query = f"SELECT {', '.join([*listed, 'count(*)', f'min({time})', f'max({time})'])} {self._from}"
        grouped = f" GROUP BY {', '.join(listed)}" if listed else ""
        types = [*(self._table.types[column] for column in columns), _INT8, _INT8, _INT8]
        return self._view.stream(query + grouped, self._parameters, types)

    def unordered(self, columns: Sequence[str], flag: str = "true") -> Iterator[Lying]:
        """All of them as they lie; `flag` is an expression over the row `o`."""
        listed = ", ".join([*(f"o.{quoted(column)}" for column in columns), _microseconds(self._table.time), flag])
        types = [*(self._table.types[column] for column in columns), _INT8, _BOOL]
        for *values, time, holds in self._view.stream(f"SELECT {listed} {self._from}", self._parameters, types):
            yield Lying(tuple(values), None if time is None else int(time), holds == b"t")

    def batches(self, columns: Sequence[str], most: int | None = None) -> Iterator[list[Row]]:
        """All of them in order, the columns' values as PostgreSQL prints them; no batch is empty, none has more rows
        than `most`.
        """
        batch, size = list[Row](), 0
        most = most or BATCH_ROWS
        for row in self._rows(columns):
            batch.append(row)
            size += sum(len(value) for value in row.values if value is not None)
            if len(batch) >= most or size >= BATCH_BYTES:
                yield batch
                batch, size = [], 0
        if batch:
            yield batch

    @property
    def _from(self) -> str:
        # Rows of tables that inherit from it are in the stream under their own names, those of partitions under its.
        only = "" if self._table.partitioned else "ONLY "
        return f"FROM {only}{self._table.name} AS o WHERE {self._where}"

    def _rows(self, columns: Sequence[str]) -> Iterator[Row]:
        order, width = self._table.order, len(columns)
        passed, parameters = behind(order, self._reached)
        listed = ", ".join([*(f"o.{quoted(column)}" for column in columns), *(term.expression for term in order)])
        query = (
            f"SELECT {listed}, {_microseconds(self._table.time)}, {passed} {self._from}"
            f" ORDER BY {', '.join(f'{term.expression} NULLS FIRST' for term in order)}"
        )
        types = [*(self._table.types[column] for column in columns), *(term.oid for term in order), _INT8, _BOOL]
        for *values, time, after in self._view.stream(query, [*parameters, *self._parameters], types):
            committed_at = self._view.microseconds if time is None else int(time)
            yield Row(tuple(values[:width]), committed_at, tuple(values[width:]), after == b"t")


def _microseconds(time: str) -> str:
    """Since 1970; NULL where no time is known. A broker takes none before."""
    if not time:
        return "NULL::int8"
    return f"CASE WHEN isfinite({time}) THEN greatest(0, (extract(epoch FROM {time}) * 1000000)::int8) END"
