"""Which rows of the outbox, and in which order: what the catalog says of the table, and the conditions of a selection.

The order is that of the commit timestamps if the server keeps them, then created_at, then id: the order of commits is
nowhere else in the table.

A row's transaction is known by its xmin, 32 bits of the number that it had (xid8). A transaction below the xmin of a
snapshot had ended when that was taken; of all others nothing is known, because the list of a snapshot's running
transactions leaves out their subtransactions.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple
from uuid import UUID

from walrelay.errors import Fatal
from walrelay.identifiers import identifier
from walrelay.postgres.catalog import READABLE, Catalog
from walrelay.table.row_filter import dropped, lost, parsed
from walrelay.wiring import Wiring

_TIMESTAMP, _TIMESTAMPTZ = 1114, 1184


class Term(NamedTuple):
    """One part of the order: an expression over the row `o`, with its type's name and OID. NULL comes first."""

    name: str
    expression: str
    type: str
    oid: int


COMMIT = Term("commit", "pg_xact_commit_timestamp(o.xmin)", "timestamptz", _TIMESTAMPTZ)


class TableDescription(NamedTuple):
    """What the catalog says about the outbox, as far as reading it needs that."""

    name: str  # quoted where it must be
    types: dict[str, int]  # column -> type OID
    partitioned: bool
    id: str
    order: tuple[Term, ...]
    time: str  # an expression for when a row was committed, or at least written
    condition: str  # of the publication; empty: none
    commits: bool  # whether the server keeps commit timestamps


def describe_table(catalog: Catalog, wiring: Wiring) -> TableDescription:
    """`created_at` is ignored if there is no such column."""
    table, id_, created_at = wiring.table, wiring.outbox.columns.id or "", wiring.outbox.columns.created_at
    found = {
        name: Term(name, f"o.{quoted(name)}", verbatim(kind), oid)
        for name, kind, oid in catalog.rows(
            "SELECT attname::text, format_type(atttypid, atttypmod), atttypid::int8 FROM pg_attribute"
            f" WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped AND {READABLE}",
            table,
        )
    }
    commits = catalog.value("SHOW track_commit_timestamp") == "on"
    order, times = list[Term](), [COMMIT.expression] if commits else []
    if created_at in found:
        order.append(found[created_at]._replace(name="created_at"))
        if found[created_at].oid in (_TIMESTAMP, _TIMESTAMPTZ):
            times.append(f"{found[created_at].expression}::timestamptz")
    if id_ in found:
        order.append(found[id_]._replace(name="id"))
    return TableDescription(
        name=verbatim(table),
        types={name: term.oid for name, term in found.items()},
        partitioned=catalog.published("", table).partitioned,
        id=id_,
        order=tuple(order),
        time=f"coalesce({', '.join(times)})" if times else "",
        condition=_condition(catalog, wiring),
        commits=commits,
    )


def id_text(table: TableDescription) -> str:
    """SQL: the row's id, as messages and dead letters have it."""
    return f"o.{quoted(table.id)}::text"


def quoted(column: str) -> str:
    """A column of the outbox, for a query with parameters."""
    return verbatim(identifier(column))


def verbatim(text: str) -> str:
    """Text for a query with parameters, with its per cent signs doubled."""
    return text.replace("%", "%%")


def _condition(catalog: Catalog, wiring: Wiring) -> str:
    """The publication's row filter: rows that are not in the stream are not read here either. Those that rules drop are
    as they would be without a filter, read and dropped.
    """
    found = published_rows(catalog, wiring.publication, wiring.table)
    withheld = parsed(found) if found else None
    return "" if withheld is not None and not lost(withheld, dropped(wiring)) else found


def published_rows(catalog: Catalog, publication: str | None, table: str) -> str:
    """The publication's row filter (PostgreSQL 15 and later), or an empty text."""
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


Key = tuple[str | None, ...]
"""A row's place in the order: the printed value of each term."""


class Reached(NamedTuple):
    """Everything before `before`, in a snapshot with this xmin, is durable at the broker."""

    xmin: int
    before: Key


class Condition(NamedTuple):
    """An expression over the row `o`, with the parameters for its `%s`."""

    text: str = "true"
    parameters: Sequence[Any] = ()


class Selection(NamedTuple):
    """Rows of transactions from `floor` on and before `ceiling` (0: no limit), committed or written `since` a time,
    whose ids are not in `known`, and that satisfy `also`.
    """

    floor: int = 0
    since: str | None = None
    known: Sequence[str] = ()
    reached: Sequence[Reached] = ()
    ceiling: int = 0
    also: Condition = Condition()


def selection_condition(table: TableDescription, selection: Selection, xmax: int) -> tuple[str, list[Any]]:
    """The condition, in a snapshot with this xmax, and its parameters."""
    conditions, parameters = ["true"], list[Any]()
    if selection.floor:
        conditions.append(f"{xid8(xmax)} >= {selection.floor}")
    if selection.ceiling:
        conditions.append(f"{xid8(xmax)} < {selection.ceiling}")
    if selection.since is not None:
        conditions.append(f"coalesce({table.time}, 'infinity') >= %s::timestamptz")
        parameters.append(selection.since)
    if table.condition:
        conditions.append(f"({verbatim(table.condition)})")
    if selection.known:
        conditions.append(f"({id_text(table)} = ANY (%s::text[])) IS NOT TRUE")
        parameters.append(list(selection.known))
    for reached in selection.reached:
        before, keys = _before(table.order, reached.before)
        conditions.append(f"NOT ({xid8(xmax)} < {reached.xmin} AND {before})")
        parameters += keys
    conditions.append(f"({selection.also.text})")
    return " AND ".join(conditions), [*parameters, *selection.also.parameters]


def xid8(xmax: int) -> str:
    """SQL: the full number of the transaction that wrote the row, which is below the snapshot's xmax.

    For a row so old that the 32 bits wrapped around since, it is the number of a later transaction: such a row may be
    published again, but is never skipped.
    """
    return f"({xmax - 1} - (({xmax - 1} - o.xmin::text::int8) & 4294967295))"


def after_reached(order: Sequence[Term], reached: Sequence[Reached]) -> tuple[str, list[str]]:
    conditions, parameters = ["true"], list[str]()
    for each in reached:
        before, keys = _before(order, each.before)
        conditions.append(f"NOT {before}")
        parameters += keys
    return " AND ".join(conditions), parameters


def _before(order: Sequence[Term], key: Key) -> tuple[str, list[str]]:
    """Whether the row comes before `key`, and the parameters; where values are equal the next term decides."""
    (term, *others), (value, *rest) = order, key
    nested, parameters = _before(others, tuple(rest)) if others else ("false", [])
    if value is None:
        return f"({term.expression} IS NULL AND {nested})", parameters
    less = f"{term.expression} IS NULL OR {term.expression} < %s::{term.type}"
    return f"({less} OR ({term.expression} = %s::{term.type} AND {nested}))", [value, value, *parameters]


_UUID, _INTEGERS = 2950, frozenset({20, 21, 23})


class Filters(NamedTuple):
    """All of them apply. Times are ISO 8601, `until` is exclusive; an aggregate without an id means all of its type;
    `ids` None: any, empty: none.
    """

    since: str | None = None
    until: str | None = None
    aggregates: Sequence[tuple[str, str | None]] = ()
    types: Sequence[str] = ()
    ids: Sequence[str] | None = None
    tenants: Sequence[str] = ()


def filter_condition(table: TableDescription, columns: Mapping[str, str | None], filters: Filters) -> Condition:
    """`columns`: role -> column. Fatal if the table has no column that a filter needs."""
    conditions, parameters = list[str](), list[Any]()
    if filters.since or filters.until:
        _refuse_without_time(table)
    for time, operator in ((filters.since, ">="), (filters.until, "<")):
        if time:
            conditions.append(f"coalesce({table.time}, 'infinity') {operator} %s::timestamptz")
            parameters.append(time)
    if filters.aggregates:
        text, values = _aggregates(table, columns, filters.aggregates)
        conditions.append(text)
        parameters += values
    if filters.types:
        conditions.append(f"{_column(table, columns, 'type', '--type')}::text = ANY (%s::text[])")
        parameters.append(list(filters.types))
    if filters.tenants:
        conditions.append(f"{_column(table, columns, 'tenant_id', '--tenant')}::text = ANY (%s::text[])")
        parameters.append(list(filters.tenants))
    if filters.ids is not None:
        text, values = _with_ids(table, filters.ids)
        conditions.append(text)
        parameters.append(values)
    return Condition(" AND ".join(conditions) or "true", parameters)


def _with_ids(table: TableDescription, ids: Sequence[str]) -> tuple[str, list[Any]]:
    """Whether the row's id is among them, and the parameter, of the column's own type, so that an index can be used."""
    column, type_ = f"o.{quoted(table.id)}", table.types.get(table.id)
    if type_ == _UUID:
        return f"{column} = ANY (%s::uuid[])", [str(each) for each in _readable(ids, UUID)]
    if type_ in _INTEGERS:
        return f"{column} = ANY (%s::int8[])", [each for each in _readable(ids, int) if abs(each) < 2**63]
    return f"{column}::text = ANY (%s::text[])", list(ids)


def all_of(*conditions: Condition) -> Condition:
    return Condition(
        " AND ".join(f"({each.text})" for each in conditions),
        [parameter for each in conditions for parameter in each.parameters],
    )


def _aggregates(
    table: TableDescription, columns: Mapping[str, str | None], aggregates: Sequence[tuple[str, str | None]]
) -> tuple[str, list[Any]]:
    kind = _column(table, columns, "aggregate_type", "--aggregate")
    alternatives, parameters = list[str](), list[Any]()
    for type_, id_ in aggregates:
        alternatives.append(f"{kind}::text = %s::text")
        parameters.append(type_)
        if id_ is not None:
            which = _column(table, columns, "aggregate_id", "--aggregate TYPE:ID")
            alternatives[-1] = f"({alternatives[-1]} AND {which}::text = %s::text)"
            parameters.append(id_)
    return f"({' OR '.join(alternatives)})", parameters


def _refuse_without_time(table: TableDescription) -> None:
    if not table.time:
        raise Fatal(
            f"a period needs times to compare with, and {table.name} has none",
            hint="Map outbox.columns.created_at to a column of type timestamptz, or set track_commit_timestamp.",
        )


def _column(table: TableDescription, columns: Mapping[str, str | None], role: str, option: str) -> str:
    column = columns.get(role)
    if column is None or column not in table.types:
        raise Fatal(
            f"{option} needs a column for {role}, and {table.name} has none",
            hint=f"outbox.columns.{role} names it. Or select the rows in another way.",
        )
    return f"o.{quoted(column)}"


def _readable(ids: Sequence[str], read: Callable[[str], Any]) -> list[Any]:
    """Without ids that no row can have."""
    found = list[Any]()
    for each in ids:
        with suppress(ValueError):
            found.append(read(each))
    return found
