"""What the catalog says about the outbox, as far as reading its rows needs that.

The order is that of the commit timestamps if the server keeps them, then created_at, then id: the order of commits is
nowhere else in the table.
"""

from typing import NamedTuple

from walrelay.identifiers import identifier
from walrelay.postgres.catalog import READABLE, Catalog

_TIMESTAMP, _TIMESTAMPTZ = 1114, 1184


class Term(NamedTuple):
    """One part of the order: an expression over the row `o`, with its type's name and OID. NULL comes first."""

    name: str
    expression: str
    type: str
    oid: int


COMMIT = Term("commit", "pg_xact_commit_timestamp(o.xmin)", "timestamptz", _TIMESTAMPTZ)


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
    return OutboxTable(
        name=verbatim(table),
        types={name: term.oid for name, term in found.items()},
        partitioned=catalog.published("", table).partitioned,
        id=id_,
        order=tuple(order),
        time=f"coalesce({', '.join(times)})" if times else "",
        condition=_row_filter(catalog, publication, table),
        commits=commits,
    )


def as_text(table: OutboxTable) -> str:
    """The row's id, as messages and dead letters have it."""
    return f"o.{quoted(table.id)}::text"


def quoted(column: str) -> str:
    """A column of the outbox, for such a query."""
    return verbatim(identifier(column))


def verbatim(text: str) -> str:
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
