"""The days of a partitioned outbox: which partitions walrelay made, the SQL for new ones, and what is left of old ones.

A comment marks what walrelay made. A partition that is to be dropped is detached first, and gets another comment in the
same transaction, which says that the table may be dropped and of which outbox it was.
"""

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple

from walrelay.ddl import script
from walrelay.errors import Fatal
from walrelay.identifiers import identifier
from walrelay.postgres.catalog import Catalog
from walrelay.wire.commands import literal

AHEAD = 7
"""So many days have their partition beforehand, besides today."""

COLUMN = "created_at"

_OTHERWISE = "walrelay: events of days without a partition"
_DAY = "walrelay: events of "
_DETACHED = "walrelay: to be dropped, was a day of "
_UPPER = re.compile(r" TO \('(\d{4}-\d\d-\d\d) 00:00:00\+00'\)$")
_STEM = 50  # bytes of a table's name that fit before the day, in the 63 of PostgreSQL


class Day(NamedTuple):
    """A partition for the events of the day before `end`."""

    table: str
    end: date


class Partitions(NamedTuple):
    """`default`: the partition for everything else, if there is one. `ours`: walrelay made it, and makes the days."""

    default: str | None
    ours: bool
    days: list[Day]
    others: list[str]

    @property
    def today(self) -> bool:
        """Whether today has a partition."""
        return any(day.end == today() + timedelta(days=1) for day in self.days)

    @property
    def ahead(self) -> int:
        """How many days after today have a partition, without a gap."""
        ends, day, count = {day.end for day in self.days}, today() + timedelta(days=2), 0
        while day in ends:
            day, count = day + timedelta(days=1), count + 1
        return count


def today() -> date:
    return datetime.now(UTC).date()


class NewDays(NamedTuple):
    """The SQL that makes a partitioned outbox and its days; names are without quotes."""

    schema: str
    table: str

    def outbox(self) -> str:
        """The table, the coming days, and a default partition."""
        days = "".join(self.day(day) for day in days_to_make([]))
        name = self._named("default")
        default = f"CREATE TABLE {name} PARTITION OF {self._parent} DEFAULT;"
        comment = f"COMMENT ON TABLE {name} IS {literal(_OTHERWISE)};"
        return f"{script('outbox_days', table=self._parent)}\n{default}\n{comment}\n{days}"

    def day(self, day: date) -> str:
        return "".join(f"{statement};\n" for statement in self.statements(day))

    def statements(self, day: date) -> tuple[str, str, str]:
        """CREATE TABLE ... PARTITION OF would lock out all writers for a moment; ATTACH locks out only those that write
        to the default partition.
        """
        name = self._named(f"{day:%Y%m%d}")
        copied = "INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING GENERATED INCLUDING STORAGE INCLUDING COMPRESSION"
        return (
            f"CREATE TABLE {name} (LIKE {self._parent} {copied})",
            f"COMMENT ON TABLE {name} IS {literal(f'{_DAY}{day} (UTC)')}",
            f"ALTER TABLE {self._parent} ATTACH PARTITION {name} FOR VALUES FROM ('{day} 00:00:00+00')"
            f" TO ('{day + timedelta(days=1)} 00:00:00+00')",
        )

    @property
    def _parent(self) -> str:
        return f"{identifier(self.schema)}.{identifier(self.table)}"

    def _named(self, end: str) -> str:
        stem = self.table.encode()[:_STEM].decode(errors="ignore")
        return f"{identifier(self.schema)}.{identifier(f'{stem}_{end}')}"


def refuse_days(catalog: Catalog, table: str, plugin: str) -> None:
    """Fatal if the outbox cannot have days that walrelay makes."""
    if plugin == "wal2json":
        raise Fatal(
            "wal2json names the partition with each row: a partitioned outbox cannot be read with it",
            hint="Set source.plugin to pgoutput, or leave --partitioned out.",
        )
    published = catalog.published("", table)
    if published.oid is not None and not published.partitioned:
        raise Fatal(
            f"table {table} is there already and is not partitioned, which PostgreSQL cannot change",
            hint="`walrelay docs cleanup` says how to replace it by a partitioned one without losing an event.",
        )
    if published.oid is not None and not partitions(catalog, table).ours:
        raise Fatal(
            f"table {table} is partitioned already, and not by walrelay",
            hint="Manage the partitions as before; `walrelay cleanup` deletes the rows.",
        )


def partitions(catalog: Catalog, table: str) -> Partitions:
    """Only those that hold rows."""
    rows = catalog.rows(
        "SELECT format('%%I.%%I', nspname, relname), pg_get_expr(relpartbound, c.oid),"
        " coalesce(obj_description(c.oid, 'pg_class'), ''), inhparent = to_regclass(%s)"
        " FROM pg_partition_tree(to_regclass(%s)) t JOIN pg_class c ON c.oid = t.relid"
        " JOIN pg_namespace n ON n.oid = relnamespace JOIN pg_inherits ON inhrelid = c.oid"
        " WHERE relkind = 'r' ORDER BY 1",
        table,
        table,
    )
    default, ours, days, others = None, False, list[Day](), list[str]()
    for name, bound, comment, direct in rows:
        upper = _UPPER.search(bound or "")
        if direct and bound == "DEFAULT":
            default, ours = name, comment == _OTHERWISE
        elif direct and upper and comment.startswith(_DAY):
            days.append(Day(name, date.fromisoformat(upper[1])))
        else:
            others.append(name)
    return Partitions(default, ours, days, others)


def detached_days(catalog: Catalog, table: str) -> list[str]:
    """Tables that were days of the outbox and are to be dropped."""
    rows = catalog.rows(
        "SELECT format('%%I.%%I', nspname, relname) FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace"
        " WHERE relkind = 'r' AND NOT relispartition AND obj_description(c.oid, 'pg_class') = %s"
        " AND relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = to_regclass(%s)) ORDER BY 1",
        _DETACHED + table,
        table,
    )
    return [name for (name,) in rows]


def days_to_make(days: list[Day]) -> Iterator[date]:
    """The days from today on that should have a partition and have none."""
    there = {day.end for day in days}
    for number in range(AHEAD + 1):
        day = today() + timedelta(days=number)
        if day + timedelta(days=1) not in there:
            yield day


def detach_statements(table: str, day: Day) -> tuple[str, str]:
    return (
        f"ALTER TABLE {table} DETACH PARTITION {day.table}",
        f"COMMENT ON TABLE {day.table} IS {literal(_DETACHED + table)}",
    )


def has_rows_of_day(default: str, day: date) -> str:
    """A query that says whether the default partition has rows of a day."""
    within = f"{COLUMN} >= '{day} 00:00:00+00' AND {COLUMN} < '{day + timedelta(days=1)} 00:00:00+00'"
    return f"SELECT EXISTS (SELECT FROM ONLY {default} WHERE {within})"
