"""Rows that were deleted before they were published: what can be known about them.

Nothing marks a row that is gone. Numeric ids leave gaps. A clean-up by age deletes the oldest rows first: if the oldest
row left is a published one, it has not reached the later ones.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from walrelay.identifiers import identifier
from walrelay.postgres.snapshot import View
from walrelay.table.selection import TableDescription, xid8

_INTEGERS = {20, 21, 23}
_LISTED = 5  # ranges


class KnownPublished(NamedTuple):
    """What is known to be published: transactions below `floor` (0: not known), and the events with these ids."""

    floor: int
    ids: Sequence[str]


class Removed(NamedTuple):
    """`sure`: the lines are proved, and not only likely. `rows`: how many may be missing."""

    sure: bool
    rows: int
    lines: list[str]


def removed(view: View, table: TableDescription, published: KnownPublished) -> Removed:
    """What is known, as lines of text."""
    if table.types.get(table.id) in _INTEGERS:
        return _gaps(_Questions(view, table, published))
    return _signs(_Questions(view, table, published))


class _Questions:
    """Queries on the table."""

    def __init__(self, view: View, table: TableDescription, published: KnownPublished) -> None:
        self._view, self._table = view, table
        self.ids = published.ids
        self.id = f"o.{identifier(table.id)}".replace("%", "%%")
        self._source = f"{'' if table.partitioned else 'ONLY '}{table.name} AS o"
        floor = f"{xid8(view.xmax)} < {published.floor} OR " if published.floor else ""
        self._published = f"({floor}coalesce({self.id}::text = ANY (%s::text[]), false))"

    def of_all(self, expression: str) -> Any:
        return self._view.rows(f"SELECT {expression} FROM {self._source}")[0][0]

    def of_published(self, expression: str) -> Any:
        query = f"SELECT {expression} FROM {self._source} WHERE {self._published}"
        return self._view.rows(query, [list(self.ids)])[0][0]

    def oldest(self) -> tuple[str | None, str | None]:
        """When the oldest row was written, and the oldest published one."""
        if not self._table.time:
            return None, None
        expression = f"to_char(min({self._table.time}), 'YYYY-MM-DD HH24:MI:SS.US')"
        return self.of_all(expression), self.of_published(expression)

    def gaps(self, after: int) -> tuple[int, int, list[str]]:
        """How many numbers above `after` have no row, in how many ranges, and the first ranges."""
        query = (
            "WITH numbers AS (SELECT %s::int8 AS n UNION SELECT"
            f" {self.id}::int8 FROM {self._source} WHERE {self.id} > %s),"
            " gaps AS (SELECT n + 1 AS low, lead(n) OVER (ORDER BY n) - 1 AS high FROM numbers)"
            " SELECT coalesce(sum(high - low + 1), 0)::int8, count(*),"
            f" (array_agg(low || CASE WHEN high > low THEN '-' || high ELSE '' END ORDER BY low))[:{_LISTED}]"
            " FROM gaps WHERE high >= low"
        )
        ((missing, ranges, listed),) = self._view.rows(query, [after, after])
        return int(missing), int(ranges), listed or []

    def deletions(self) -> str:
        """What the statistics say about deletions from the table and its partitions."""
        ((count, since),) = self._view.rows(
            "SELECT coalesce(sum(n_tup_del), 0)::int8, (SELECT to_char(stats_reset, 'YYYY-MM-DD HH24:MI:SS')"
            " FROM pg_stat_database WHERE datname = current_database())"
            " FROM pg_stat_user_tables WHERE relid IN (SELECT to_regclass(%s)::oid UNION"
            " SELECT relid FROM pg_partition_tree(to_regclass(%s)))",
            [self._table.name.replace("%%", "%")] * 2,
        )
        if not count:
            return f"the statistics{f' since {since}' if since else ''} know of no deleted row"
        rows = "1 row was" if count == 1 else f"{count} rows were"
        return f"{rows} deleted from the table{f' since {since}' if since else ''}, perhaps by a clean-up"


def _gaps(ask: _Questions) -> Removed:
    """Sequences number rows in about their order; a rollback leaves a gap too."""
    known = [int(each) for each in ask.ids if each.removeprefix("-").isdecimal()]
    last = max([*known, *filter(None, [ask.of_published(f"max({ask.id})")])], default=None)
    if last is None:
        return Removed(False, 0, [f"{ask.deletions()}; no published row or message is left to compare with"])
    missing, ranges, listed = ask.gaps(last)
    if not missing:
        return Removed(True, 0, [f"no id is missing after {last}, the highest that is known to be published"])
    more = f" and {ranges - len(listed)} more ranges" if ranges > len(listed) else ""
    return Removed(
        False,
        missing,
        [
            f"{missing} ids after {last}, the highest that is known to be published, have no row:"
            f" {', '.join(listed)}{more}",
            f"each was rolled back, skipped by the sequence, or deleted before it was published; {ask.deletions()}",
        ],
    )


def _signs(ask: _Questions) -> Removed:
    oldest, oldest_published = ask.oldest()
    if oldest is not None and oldest == oldest_published:
        line = f"no row, if rows were only deleted by age: the oldest row left ({oldest} UTC) was published"
        return Removed(False, 0, [f"{line}; {ask.deletions()}"])
    return Removed(False, 0, list(_unknown(ask, oldest)))


def _unknown(ask: _Questions, oldest: str | None) -> Iterator[str]:
    if ask.of_all("count(*)") == 0:
        yield f"{ask.deletions()}; the table is empty, so nothing shows whether all were published"
    elif oldest is None:
        yield f"{ask.deletions()}; neither ids nor times show whether all of them had been published"
    else:
        yield (
            f"{ask.deletions()}; it is not certain that all rows written before {oldest} UTC were published."
            " Compare with the topics: walrelay audit"
        )
