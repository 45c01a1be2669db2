"""Rows of the outbox in a snapshot: read in order and in batches, and published batch by batch.

Each batch is durable before the next one begins, so what a journal calls reached is reached, and a crash repeats at
most one batch.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import inf
from threading import Event
from time import monotonic
from typing import Any, NamedTuple, Protocol

from walrelay.errors import AS_IT_WAS_WRITTEN, AS_THE_TABLE_HAS_IT, RUN_AGAIN, START_AGAIN, Fatal, Retryable
from walrelay.model import Message, OutboxRecord, Receipt
from walrelay.observe import Observer
from walrelay.observe.stalls import StallWatch
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.failures import Denied, translated
from walrelay.postgres.snapshot import View
from walrelay.publish import Sink, refused
from walrelay.route import Routing
from walrelay.supervise import Backoff, Retries, supervise
from walrelay.table.selection import (
    COMMIT,
    RowCondition,
    Selection,
    TableDescription,
    after_reached,
    describe_table,
    quoted,
    selection_condition,
    verbatim,
)
from walrelay.wiring import Wiring

BATCH_ROWS = 2000
BATCH_BYTES = 4 * 2**20

_INT8, _BOOL = 20, 16


class OutboxRow(NamedTuple):
    """`values` of the requested columns; `committed_at` in microseconds since 1970, as far as it is known. `passed`:
    the row comes after everything that was reached before.
    """

    values: tuple[bytes | None, ...]
    committed_at: int
    key: tuple[bytes | None, ...]
    passed: bool


class UnorderedRow(NamedTuple):
    """Values of columns, the commit time in microseconds if it is known, and whether a condition holds."""

    values: tuple[bytes | None, ...]
    committed_at: int | None
    flag: bool


def refuse_sql(catalog: Catalog, wiring: Wiring, what: str, condition: str, kind: str, example: str) -> None:
    """Fatal if the condition of an operator is no SQL over the rows of the table. `what` it is, the option as typed;
    `kind` and `example`: of what is to be written instead.
    """
    try:
        with View(wiring.dsn, catalog) as view:
            selection = Selection(also=RowCondition(verbatim(condition)))
            OutboxRows(view, describe_table(catalog, wiring), selection).ask("1", "LIMIT 0")
    except Denied:
        raise
    except Fatal as error:
        raise Fatal(
            f"{what} cannot be used: {error}", hint=f"Write {kind} of {wiring.table}, as in: {example}"
        ) from error


def in_commit_order(view: View, table: TableDescription, selection: Selection) -> TableDescription:
    """Ordered by commit timestamps as well, if the server has those of all rows of the selection.

    The server forgets old ones, and a row that loses its timestamp would move to the front, behind what was reached.
    """
    if not table.commits:
        return table
    rows = OutboxRows(view, table, selection)
    ((all_known,),) = rows.ask(f"count(*) = count({COMMIT.expression})")
    return table._replace(order=(COMMIT, *table.order)) if all_known else table


class OutboxRows:
    """The selected rows of the table in one snapshot."""

    def __init__(self, view: View, table: TableDescription, selection: Selection) -> None:
        self._view, self._table = view, table
        self._where, self._parameters = selection_condition(table, selection, view.xmax)
        self._reached = selection.reached

    def count(self) -> int:
        ((count,),) = self._view.rows(f"SELECT count(*) {self._from}", self._parameters)
        return int(count)

    def ask(self, expressions: str, clauses: str = "") -> list[tuple[Any, ...]]:
        """`SELECT expressions` over the rows; a row is `o`."""
        return self._view.rows(f"SELECT {expressions} {self._from} {clauses}", self._parameters)

    def distinct(self, columns: Sequence[str]) -> Iterator[tuple[bytes | None, ...]]:
        """Each combination of the columns' values once, as PostgreSQL prints them."""
        if not columns:
            return iter([()])
        listed = ", ".join(f"o.{quoted(column)}" for column in columns)
        types = [self._table.types[column] for column in columns]
        return self._view.stream(f"SELECT DISTINCT {listed} {self._from}", self._parameters, types)

    def groups(self, columns: Sequence[str]) -> Iterator[tuple[bytes | None, ...]]:
        """`distinct`, each with the number of its rows, and the first and last time in microseconds."""
        listed = [f"o.{quoted(column)}" for column in columns]
        time = _microseconds(self._table.time)
        query = f"SELECT {', '.join([*listed, 'count(*)', f'min({time})', f'max({time})'])} {self._from}"
        grouped = f" GROUP BY {', '.join(listed)}" if listed else ""
        types = [*(self._table.types[column] for column in columns), _INT8, _INT8, _INT8]
        return self._view.stream(query + grouped, self._parameters, types)

    def unordered(self, columns: Sequence[str], flag: str = "true") -> Iterator[UnorderedRow]:
        """All rows in no order; `flag` is an expression over the row `o`."""
        listed = ", ".join([*(f"o.{quoted(column)}" for column in columns), _microseconds(self._table.time), flag])
        types = [*(self._table.types[column] for column in columns), _INT8, _BOOL]
        for *values, time, holds in self._view.stream(f"SELECT {listed} {self._from}", self._parameters, types):
            yield UnorderedRow(tuple(values), None if time is None else int(time), holds == b"t")

    def last(self, columns: Sequence[str], most: int) -> list[tuple[bytes | None, ...]]:
        """The last rows in order, at most so many, values as PostgreSQL prints them."""
        listed = ", ".join(f"o.{quoted(column)}" for column in columns)
        order = ", ".join(f"{term.expression} DESC NULLS LAST" for term in self._table.order)
        query = f"SELECT {listed} {self._from}{f' ORDER BY {order}' if order else ''} LIMIT {most:d}"
        types = [self._table.types[column] for column in columns]
        return [*self._view.stream(query, self._parameters, types)][::-1]

    def batches(self, columns: Sequence[str], most: int | None = None) -> Iterator[list[OutboxRow]]:
        """All rows in order, values as PostgreSQL prints them; a batch has at least one row and at most `most`."""
        batch, size = list[OutboxRow](), 0
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
        # In the stream, rows of inheriting tables have their own table's name, rows of partitions have the outbox's.
        only = "" if self._table.partitioned else "ONLY "
        return f"FROM {only}{self._table.name} AS o WHERE {self._where}"

    def _rows(self, columns: Sequence[str]) -> Iterator[OutboxRow]:
        order, width = self._table.order, len(columns)
        passed, parameters = after_reached(order, self._reached)
        listed = ", ".join([*(f"o.{quoted(column)}" for column in columns), *(term.expression for term in order)])
        query = (
            f"SELECT {listed}, {_microseconds(self._table.time)}, {passed} {self._from}"
            f" ORDER BY {', '.join(f'{term.expression} NULLS FIRST' for term in order)}"
        )
        types = [*(self._table.types[column] for column in columns), *(term.oid for term in order), _INT8, _BOOL]
        for *values, time, after in self._view.stream(query, [*parameters, *self._parameters], types):
            committed_at = self._view.microseconds if time is None else int(time)
            yield OutboxRow(tuple(values[:width]), committed_at, tuple(values[width:]), after == b"t")


def _microseconds(time: str) -> str:
    """Since 1970; NULL where no time is known. Brokers take no earlier times."""
    if not time:
        return "NULL::int8"
    return f"CASE WHEN isfinite({time}) THEN greatest(0, (extract(epoch FROM {time}) * 1000000)::int8) END"


_WAIT = 0.05  # how long to wait for receipts at a time


class BatchPublisher:
    """Routes records, publishes them and waits for the receipts. After an error it is not used again."""

    def __init__(self, router: Routing, sink: Sink, observer: Observer, stop: Callable[[], bool], grace: float) -> None:
        """`grace`: seconds that a batch may still take after `stop` became true."""
        self._route, self._sink, self._stop, self._grace = router.route, sink, stop, grace
        self._stalls = StallWatch(observer, sink.trouble)
        self._ticket = self._unsettled = self._settled = 0
        self._deadline = inf

    def publish(self, records: Iterable[OutboxRecord]) -> None:
        """Returns when every message of the records is durable; waits for a sink without room."""
        try:
            self._publish(records)
        except Fatal as error:
            error.hint = error.hint.replace(AS_IT_WAS_WRITTEN, AS_THE_TABLE_HAS_IT).replace(START_AGAIN, RUN_AGAIN)
            raise

    def _publish(self, records: Iterable[OutboxRecord]) -> None:
        self._stalls.look(0, self._settled)
        for record in records:
            for message in self._route(record):
                self._offer(message)
        while self._unsettled:
            self._sink.flush(_WAIT)
            self._settle()
        self._ticket += 1

    def _offer(self, message: Message) -> None:
        while not self._sink.publish(message, self._ticket):
            self._settle()
        self._unsettled += 1

    def _settle(self) -> None:
        for receipt in self._sink.receipts(_WAIT):
            if not isinstance(receipt, Receipt):
                raise refused([receipt])
            self._unsettled -= receipt.messages
            self._settled += receipt.messages
        self._stalls.look(self._unsettled, self._settled)
        if self._stop():
            self._deadline = min(self._deadline, monotonic() + self._grace)
            if monotonic() > self._deadline:
                raise Retryable(f"{self._unsettled} messages have no receipt yet ({self._sink.trouble() or 'waiting'})")


class Attempts(Protocol):
    """Attempts at publishing rows; each makes everything again, and the database knows what is durable."""

    published: int
    finished: bool

    def run(self) -> None:
        """One attempt, to its end, to a stop, or to the error that ends it."""


def until_finished(attempts: Attempts, stop: Event, backoff: Backoff, observer: Observer) -> bool:
    """One after the other. True when one got to its end, False after a stop; Fatal when an operator must act."""

    def attempt() -> None:
        with translated():
            attempts.run()

    supervise(
        run=attempt,
        stop=stop.is_set,
        wait=stop.wait,
        observer=observer,
        retries=Retries(lambda: attempts.published, observer, backoff),
    )
    return attempts.finished
