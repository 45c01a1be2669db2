"""Which rows of the outbox, and in which order: what the catalog says of the table, and the conditions of a selection.

The order is that of the commit timestamps if the server keeps them, then created_at, then id: the order of commits is
nowhere else in the table.

A row's transaction is known by its xmin, 32 bits of the number that it had (xid8). A transaction below the xmin of a
snapshot had ended when that was taken; of all others nothing is known, because the list of a snapshot's running
transactions leaves out their subtransactions.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

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


class RowCondition(NamedTuple):
    """An expression over the row `o`, with the parameters for its `%s`."""

    text: str = "true"
    parameters: Sequence[Any] = ()


def all_of(*conditions: RowCondition) -> RowCondition:
    return RowCondition(
        " AND ".join(f"({each.text})" for each in conditions),
        [parameter for each in conditions for parameter in each.parameters],
    )


class Selection(NamedTuple):
    """Rows of transactions from `floor` on and before `ceiling` (0: no limit), committed or written `since` a time,
    whose ids are not in `known`, and that satisfy `also`.
    """

    floor: int = 0
    since: str | None = None
    known: Sequence[str] = ()
    reached: Sequence[Reached] = ()
    ceiling: int = 0
    also: RowCondition = RowCondition()


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
        before, keys = comes_before(table.order, reached.before)
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
        before, keys = comes_before(order, each.before)
        conditions.append(f"NOT {before}")
        parameters += keys
    return " AND ".join(conditions), parameters


def comes_before(order: Sequence[Term], key: Key) -> tuple[str, list[str]]:
    """Whether the row comes before `key`, and the parameters; where values are equal the next term decides."""
    (term, *others), (value, *rest) = order, key
    nested, parameters = comes_before(others, tuple(rest)) if others else ("false", [])
    if value is None:
        return f"({term.expression} IS NULL AND {nested})", parameters
    less = f"{term.expression} IS NULL OR {term.expression} < %s::{term.type}"
    return f"({less} OR ({term.expression} = %s::{term.type} AND {nested}))", [value, value, *parameters]
