"""The outbox's rows in a snapshot, in order and in batches: which of them, and how far an earlier reading got.

The order is that of the commit timestamps if the server keeps them, then created_at, then id: the order of commits is
nowhere else in the table. A row's transaction is known by its xmin, 32 bits of the number that it had (xid8). A
transaction below the xmin of a snapshot had ended when that was taken; of all others nothing is known, because the
list of a snapshot's running transactions leaves out their subtransactions.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from walrelay.identifiers import identifier
from walrelay.source.catalog import Catalog
from walrelay.source.snapshot import View

BATCH_ROWS = 2000
BATCH_BYTES = 4 * 2**20

Key = tuple[str | None, ...]
"""A row's place in the order: the printed value of each term."""

_INT8, _BOOL, _TIMESTAMP, _TIMESTAMPTZ = 20, 16, 1114, 1184


class Term(NamedTuple):
    """One part of the order: an expression over the row `o`, with its type's name and OID. NULL comes first."""

    name: str
    expression: str
    type: str
    oid: int


_COMMIT = Term("commit", "pg_xact_commit_timestamp(o.xmin)", "timestamptz", _TIMESTAMPTZ)


class Reached(NamedTuple):
    """Everything that came before `before` in a snapshot with this xmin is durable at the broker."""

    xmin: int
    before: Key


class Condition(NamedTuple):
    """An expression over the row `o`, with the parameters for its `%s`."""

    text: str = "true"
    parameters: Sequence[Any] = ()


class Selection(NamedTuple):
    """Which rows: of transactions from `floor` on, committed or written since a time, whose ids are not known; of
    transactions before `ceiling` (0: of any), and for which a condition holds.
    """

    floor: int = 0
    since: str | None = None
    known: Sequence[str] = ()
    reached: Sequence[Reached] = ()
    ceiling: int = 0
    also: Condition = Condition()


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


class OutboxTable(NamedTuple):
    """What the catalog says about the table, as far as reading it needs that."""

    name: str  # quoted where it must be
    types: dict[str, int]  # column -> type OID
    partitioned: bool
    id: str
    order: tuple[Term, ...]
    time: str  # an expression for when a row was committed, or at least written
    condition: str  # of the publication; empty: none
    commits: bool  # whether the server keeps commit timestamps


def look(catalog: Catalog, table: str, publication: str | None, id_: str, created_at: str | None) -> OutboxTable:
    """The outbox as it is now; `created_at` is passed over if there is no such column."""
    found = {
        name: Term(name, f"o.{_name(name)}", _plain(kind), oid)
        for name, kind, oid in catalog.rows(
            "SELECT attname::text, format_type(atttypid, atttypmod), atttypid::int8 FROM pg_attribute"
            " WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped",
            table,
        )
    }
    commits = catalog.value("SHOW track_commit_timestamp") == "on"
    order, times = list[Term](), [_COMMIT.expression] if commits else []
    if created_at in found:
        order.append(found[created_at]._replace(name="created_at"))
        if found[created_at].oid in (_TIMESTAMP, _TIMESTAMPTZ):
            times.append(f"{found[created_at].expression}::timestamptz")
    if id_ in found:
        order.append(found[id_]._replace(name="id"))
    return OutboxTable(
        name=_plain(table),
        types={name: term.oid for name, term in found.items()},
        partitioned=catalog.published("", table).partitioned,
        id=id_,
        order=tuple(order),
        time=f"coalesce({', '.join(times)})" if times else "",
        condition=_row_filter(catalog, publication, table),
        commits=commits,
    )


def in_commit_order(view: View, table: OutboxTable, selection: Selection) -> OutboxTable:
    """Ordered by commit timestamps as well, if the server has those of all rows of the selection.

    It forgets old ones, and a row whose timestamp goes would move to the front, where nobody would look for it.
    """
    if not table.commits:
        return table
    rows = OutboxRows(view, table, selection)
    ((all_known,),) = rows.ask(f"count(*) = count({_COMMIT.expression})")
    return table._replace(order=(_COMMIT, *table.order)) if all_known else table


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
        listed = ", ".join(f"o.{_name(column)}" for column in columns)
        types = [self._table.types[column] for column in columns]
        return self._view.stream(f"SELECT DISTINCT {listed} {self._from}", self._parameters, types)

    def groups(self, columns: Sequence[str]) -> Iterator[tuple[bytes | None, ...]]:
        """As `distinct`, each with the number of its rows, and the times of the first and the last in microseconds."""
        listed = [f"o.{_name(column)}" for column in columns]
        time = _microseconds(self._table.time)
        query = f"SELECT {', '.join([*listed, 'count(*)', f'min({time})', f'max({time})'])} {self._from}"
        grouped = f" GROUP BY {', '.join(listed)}" if listed else ""
        types = [*(self._table.types[column] for column in columns), _INT8, _INT8, _INT8]
        return self._view.stream(query + grouped, self._parameters, types)

    def unordered(self, columns: Sequence[str], flag: str = "true") -> Iterator[Lying]:
        """All of them as they lie; `flag` is an expression over the row `o`."""
        listed = ", ".join([*(f"o.{_name(column)}" for column in columns), _microseconds(self._table.time), flag])
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
        passed, parameters = _passed(order, self._reached)
        listed = ", ".join([*(f"o.{_name(column)}" for column in columns), *(term.expression for term in order)])
        query = (
            f"SELECT {listed}, {_microseconds(self._table.time)}, {passed} {self._from}"
            f" ORDER BY {', '.join(f'{term.expression} NULLS FIRST' for term in order)}"
        )
        types = [*(self._table.types[column] for column in columns), *(term.oid for term in order), _INT8, _BOOL]
        for *values, time, after in self._view.stream(query, [*parameters, *self._parameters], types):
            committed_at = self._view.microseconds if time is None else int(time)
            yield Row(tuple(values[:width]), committed_at, tuple(values[width:]), after == b"t")


def where(table: OutboxTable, selection: Selection, xmax: int) -> tuple[str, list[Any]]:
    """The condition for the selected rows in a snapshot with this xmax, and its parameters."""
    conditions, parameters = ["true"], list[Any]()
    if selection.floor:
        conditions.append(f"{xid8(xmax)} >= {selection.floor}")
    if selection.ceiling:
        conditions.append(f"{xid8(xmax)} < {selection.ceiling}")
    if selection.since is not None:
        conditions.append(f"coalesce({table.time}, 'infinity') >= %s::timestamptz")
        parameters.append(selection.since)
    if table.condition:
        conditions.append(f"({_plain(table.condition)})")
    if selection.known:
        conditions.append(f"({as_text(table)} = ANY (%s::text[])) IS NOT TRUE")
        parameters.append(list(selection.known))
    for reached in selection.reached:
        before, keys = _before(table.order, reached.before)
        conditions.append(f"NOT ({xid8(xmax)} < {reached.xmin} AND {before})")
        parameters += keys
    conditions.append(f"({selection.also.text})")
    return " AND ".join(conditions), [*parameters, *selection.also.parameters]


def xid8(xmax: int) -> str:
    """The full number of the transaction that wrote the row, which is below the snapshot's xmax.

    Of a row so old that the 32 bits came round since, it is one of a later transaction: such a row may be published
    again, but never passed over.
    """
    return f"({xmax - 1} - (({xmax - 1} - o.xmin::text::int8) & 4294967295))"


def as_text(table: OutboxTable) -> str:
    """The row's id, as messages and dead letters have it."""
    return f"o.{_name(table.id)}::text"


def _before(order: Sequence[Term], key: Key) -> tuple[str, list[str]]:
    """Whether the row comes before `key`, and the parameters; where values are equal the next term decides."""
    (term, *others), (value, *rest) = order, key
    nested, parameters = _before(others, tuple(rest)) if others else ("false", [])
    if value is None:
        return f"({term.expression} IS NULL AND {nested})", parameters
    less = f"{term.expression} IS NULL OR {term.expression} < %s::{term.type}"
    return f"({less} OR ({term.expression} = %s::{term.type} AND {nested}))", [value, value, *parameters]


def _passed(order: Sequence[Term], reached: Sequence[Reached]) -> tuple[str, list[str]]:
    conditions, parameters = ["true"], list[str]()
    for each in reached:
        before, keys = _before(order, each.before)
        conditions.append(f"NOT {before}")
        parameters += keys
    return " AND ".join(conditions), parameters


def _microseconds(time: str) -> str:
    """Since 1970; NULL where no time is known. A broker takes none before."""
    if not time:
        return "NULL::int8"
    return f"CASE WHEN isfinite({time}) THEN greatest(0, (extract(epoch FROM {time}) * 1000000)::int8) END"


def _name(column: str) -> str:
    return _plain(identifier(column))


def _plain(text: str) -> str:
    """Text for a query with parameters, in which a per cent sign stands for one."""
    return text.replace("%", "%%")


def _row_filter(catalog: Catalog, publication: str | None, table: str) -> str:
    """A publication may leave rows out of the stream (since PostgreSQL 15): then they are not ours here either."""
    if publication is None:
        return ""
    return (
        catalog.value(
            "SELECT to_jsonb(t)->>'rowfilter' FROM pg_publication_tables t JOIN pg_namespace n ON nspname = schemaname"
            " JOIN pg_class c ON c.relnamespace = n.oid AND relname = tablename"
            " WHERE pubname = %s AND c.oid = to_regclass(%s)",
            publication,
            table,
        )
        or ""
    )
