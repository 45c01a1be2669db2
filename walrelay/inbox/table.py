"""The names of a table and its indexes, and the statements that all tables of this package share.

The statements run in the application's session, with its search_path. So they name PostgreSQL's functions and operators
with their schema: another role may have created functions of the same name in a schema of that path.
"""

import re
from datetime import timedelta

from walrelay.connections import Statement, Steps

_NAME = re.compile(r"[^\W\d][\w$]*")
_BATCH = 1000  # rows; a statement of a few milliseconds


class Table:
    """`name` is written as in settings, "public.inbox": not quoted, and its case counts."""

    def __init__(self, name: str) -> None:
        parts = name.split(".")
        if len(parts) > 2 or not all(_NAME.fullmatch(part) for part in parts):
            raise ValueError(
                f"{name!r} is not the name of a table. Write it as 'inbox' or 'public.inbox', without quotes."
            )
        self._schema, self._name = parts[:-1], parts[-1]
        self.quoted = self.beside("")

    def beside(self, suffix: str) -> str:
        """The quoted name of another table in its schema."""
        return ".".join(f'"{part}"' for part in (*self._schema, self._name + suffix))

    def index(self, column: str) -> str:
        """The quoted name of an index, which has no schema."""
        return f'"{self._name}_{column}"'


def executed(sql: str) -> Steps[None]:
    """Each statement of a script by itself: asyncpg takes one at a time. No statement here has a ; inside."""
    for statement in sql.split(";\n"):
        if statement.strip():
            yield Statement(statement.strip())


def earlier(parameter: str) -> str:
    """SQL: the time that many seconds ago."""
    seconds = f"pg_catalog.make_interval(secs => CAST(:{parameter} AS double precision))"
    return f"(pg_catalog.clock_timestamp() OPERATOR(pg_catalog.-) {seconds})"


def forgotten(table: Table, column: str, older_than: timedelta) -> Steps[int]:
    """Deletes older rows in batches, and skips rows that another transaction has locked; returns how many."""
    text = (
        f"WITH gone AS (DELETE FROM {table.quoted} WHERE ctid OPERATOR(pg_catalog.=) ANY (ARRAY("
        f"SELECT ctid FROM {table.quoted} WHERE {column} OPERATOR(pg_catalog.<) {earlier('seconds')}"
        f" ORDER BY {column} LIMIT {_BATCH} FOR UPDATE SKIP LOCKED)) RETURNING 1) SELECT pg_catalog.count(*) FROM gone"
    )
    total = 0
    while True:
        ((count,),) = yield Statement(text, {"seconds": older_than.total_seconds()}, answers=True)
        assert isinstance(count, int)
        total += count
        if count < _BATCH:
            return total
