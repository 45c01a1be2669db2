"""What both sides of the table share: errors by consequence, the lock of a key, text that any database takes."""

from collections.abc import Iterator
from contextlib import contextmanager

from walrelay.errors import Fatal, Retryable
from walrelay.postgres.connect import Connection
from walrelay.postgres.failures import NoSuchTable, PostgresError, StatementTimeout, Words, explained, first_line
from walrelay.postgres.locks import WHO
from walrelay.postgres.rights import of_all, of_table

TABLE = "walrelay.dead_letters"

# Whoever changes the table or has its rows; one that waits for others itself comes last.
_HOLDER = f"""
    SELECT {WHO} FROM pg_locks l LEFT JOIN pg_stat_activity USING (pid)
    WHERE relation = to_regclass('{TABLE}') AND granted AND mode <> 'AccessShareLock' AND pid <> pg_backend_pid()
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    ORDER BY EXISTS (SELECT FROM pg_locks w WHERE w.pid = l.pid AND NOT w.granted), backend_start LIMIT 1
"""


_WORDS = Words(
    "the dead letters in PostgreSQL cannot be reached",
    "the dead letters may not be read or written",
    "a dead letter cannot be written or read",
    "PostgreSQL takes no writes now, and so no dead letter",
    again=Retryable,
)


@contextmanager
def meaning(connection: Connection) -> Iterator[None]:
    """Errors of the statements inside by consequence."""
    with explained(_WORDS, lambda: of_all(connection, of_table("dead_letters"))):
        try:
            yield
        except StatementTimeout as cause:
            raise Retryable(_taken(connection) or f"the dead letters took too long: {first_line(cause)}") from cause
        except NoSuchTable as cause:
            raise missing() from cause


def _taken(connection: Connection) -> str:
    """Who else is at work on the letters; empty where nobody is, or nobody says."""
    try:
        found = connection.execute(_HOLDER.encode(), ()).fetchone()
    except PostgresError:
        return ""
    return f"another process is at work on the dead letters: {found[0]}; wait for it, or end it" if found else ""


def missing() -> Fatal:
    """The table is not there."""
    return Fatal(f"there is no table {TABLE}", hint="`walrelay init` makes it; what is there already stays as it is.")


def text(value: str) -> str:
    """As PostgreSQL takes it: no NUL, and what is not UTF-8 as an escape."""
    return value.replace("\0", "\\x00").encode("utf-8", "backslashreplace").decode()
