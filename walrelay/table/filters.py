"""Which rows of the outbox an operator asks for: by time, aggregate, type, tenant or id."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple
from uuid import UUID

from walrelay.errors import Fatal
from walrelay.table.selection import RowCondition, TableDescription, quoted

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


def filter_condition(table: TableDescription, columns: Mapping[str, str | None], filters: Filters) -> RowCondition:
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
    return RowCondition(" AND ".join(conditions) or "true", parameters)


def _with_ids(table: TableDescription, ids: Sequence[str]) -> tuple[str, list[Any]]:
    """Whether the row's id is among them, and the parameter."""
    return _is_one_of(table, table.id, ids)


def _is_one_of(table: TableDescription, name: str, texts: Sequence[str]) -> tuple[str, list[Any]]:
    """Of the column's own type, so that an index can be used."""
    column, type_ = f"o.{quoted(name)}", table.types.get(name)
    if type_ == _UUID:
        return f"{column} = ANY (%s::uuid[])", [str(each) for each in _readable(texts, UUID)]
    if type_ in _INTEGERS:
        return f"{column} = ANY (%s::int8[])", [each for each in _readable(texts, int) if abs(each) < 2**63]
    return f"{column}::text = ANY (%s::text[])", list(texts)


def _aggregates(
    table: TableDescription, columns: Mapping[str, str | None], aggregates: Sequence[tuple[str, str | None]]
) -> tuple[str, list[Any]]:
    kind = _column(table, columns, "aggregate_type", "--aggregate")
    alternatives, parameters = list[str](), list[Any]()
    for type_, id_ in aggregates:
        alternatives.append(f"{kind}::text = %s::text")
        parameters.append(type_)
        if id_ is not None:
            _column(table, columns, "aggregate_id", "--aggregate TYPE:ID")
            text, values = _is_one_of(table, columns["aggregate_id"] or "", [id_])
            alternatives[-1] = f"({alternatives[-1]} AND {text})"
            parameters.append(values)
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
