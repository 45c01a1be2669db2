"""Connections to PostgreSQL: one that replicates, and ordinary ones for everything that has parameters."""

import os
import re
import select
from collections.abc import Callable, Generator
from time import monotonic
from typing import Any, TypeVar

import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from walrelay.errors import Disconnected, Fatal
from walrelay.source.failures import first_line

# A relay whose host died, or whose network went silent, is noticed in half a minute instead of hours.
_DEFAULTS: dict[str, Any] = {
    "connect_timeout": 10,
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}

# What a value looks like depends on the session (PITFALLS A33). SET rather than startup options, because PGTZ and
# PGDATESTYLE in the environment would win over those.
#
# And what the server says besides the stream must be heard: since PostgreSQL 18 a warning is the only sign that a
# publication is passed over (PITFALLS A18).
SESSION = (
    "SELECT set_config('client_min_messages', 'warning', false)"
    " WHERE current_setting('client_min_messages') = 'error';"
    " SET client_encoding = 'UTF8'; SET DateStyle = 'ISO, MDY'; SET IntervalStyle = 'postgres'; SET TimeZone = 'UTC';"
    " SET extra_float_digits = 1; SET bytea_output = 'hex'; SET statement_timeout = 0; SET lock_timeout = 0"
)

_SLICE = 0.1  # seconds between two looks at whether to stop
_SLACK = 5.0  # seconds that an answer may take longer than the server works on it

T = TypeVar("T")


class Connection(psycopg.Connection[tuple[Any, ...]]):
    """Waits `patience` seconds for an answer and no longer.

    Where a proxy or a load balancer stands between, TCP acknowledges what nobody reads, and waits for ever.
    """

    patience = 10.0

    def wait(self, gen: Generator[Any, Any, T], *arguments: Any, **options: Any) -> T:
        return super().wait(_within(self.patience, gen), *arguments, **options)


def replication(dsn: str) -> Connection:
    """A replication connection to the database; Disconnected where none can be had."""
    connection = _connect(dsn, replication="database", application_name="walrelay")
    _set(connection, SESSION)
    if connection.pgconn.parameter_status(b"server_encoding") == b"SQL_ASCII":
        _set(connection, "SET client_encoding = 'SQL_ASCII'")  # UTF8 would stop at bytes that are not
    return connection


def ordinary(dsn: str, *, statement_timeout: float = 5.0) -> Connection:
    """An ordinary connection in autocommit mode; `statement_timeout` in seconds."""
    connection = _connect(dsn, application_name="walrelay control")
    try:
        connection.execute("SET client_encoding = 'UTF8'")
        if connection.info.server_version >= 140000:
            connection.execute("SET idle_session_timeout = 0")
        limit(connection, statement_timeout)
    except psycopg.OperationalError as cause:
        connection.close()
        raise Disconnected(f"the connection to PostgreSQL at {address(dsn)} broke: {first_line(cause)}") from cause
    return connection


def _set(connection: Connection, command: str) -> None:
    """A session without these settings would read values that are not what they seem."""
    result = answer(connection, command)
    if result.status != pq.ExecStatus.COMMAND_OK:
        connection.close()
        raise Disconnected(f"PostgreSQL did not accept {command!r}: {(result.error_message or b'').decode().strip()}")


def limit(connection: Connection, seconds: float) -> None:
    """From now on a statement may take so long."""
    connection.execute(f"SET statement_timeout = {int(seconds * 1000)}".encode())
    connection.patience = seconds + _SLACK


def answer(connection: Connection, command: str) -> pq.abc.PGresult:
    """The result of replication commands, or the last one's: an error too, as libpq's PQexec gives it."""
    result = answer_unless(lambda: False, connection, command, connection.patience)
    if result is None:
        raise Disconnected("PostgreSQL gave no answer")
    return result


def answer_unless(
    stop: Callable[[], bool], connection: Connection, command: str, patience: float
) -> pq.abc.PGresult | None:
    """As `answer`, within `patience` seconds; None as soon as `stop` says so; then the connection is of no use."""
    pgconn, result = connection.pgconn, None
    poll = select.poll()
    poll.register(pgconn.socket, select.POLLIN)
    deadline = monotonic() + patience
    try:
        pgconn.send_query(command.encode())
        while result is None or result.status != pq.ExecStatus.COPY_BOTH:
            while pgconn.is_busy():
                if poll.poll(_SLICE * 1000):
                    pgconn.consume_input()
                elif stop():
                    return None
                elif monotonic() > deadline:
                    raise Disconnected(f"PostgreSQL did not answer within {patience:g} s")
            if (latest := pgconn.get_result()) is None:
                break
            result = latest
    except psycopg.OperationalError as cause:
        raise Disconnected(f"the connection to PostgreSQL broke: {first_line(cause)}") from cause
    return result


def address(dsn: str) -> str:
    """Where the DSN points, for messages: never with the password."""
    try:
        parts = conninfo_to_dict(dsn)
    except psycopg.ProgrammingError:
        return "the DSN"
    host, port = parts.get("host") or parts.get("hostaddr") or "the default host", parts.get("port") or 5432
    return f"{host}:{port}/{parts.get('dbname') or ''}"


def _connect(dsn: str, **forced: Any) -> Connection:
    try:
        given = conninfo_to_dict(dsn)
    except psycopg.ProgrammingError:  # whose text quotes the DSN, and so perhaps the password
        raise Fatal(
            "source.dsn is not a connection string that libpq understands",
            hint="Write postgresql://user:password@host:5432/database, with %40 and the like for special characters,"
            " or keywords: host=... dbname=...",
        ) from None
    parts = {**_DEFAULTS, "application_name": forced.pop("application_name"), **given, **forced}
    parts["client_encoding"] = "UTF8"  # also against PGCLIENTENCODING
    parts = {**_place(given), **parts}
    try:
        return Connection.connect(make_conninfo(**parts), autocommit=True)
    except psycopg.OperationalError as cause:
        text = re.sub(r"^connection failed: ", "", first_line(cause))
        raise Disconnected(f"no connection to PostgreSQL at {address(dsn)}: {text}{_environment(parts)}") from cause


def _place(given: dict[str, Any]) -> dict[str, str]:
    """What the DSN leaves open about where it leads, and PGHOSTADDR or PGTARGETSESSIONATTRS would answer otherwise.

    Of several hosts the primary is meant, or the first standby would be taken.
    """
    several = "," in str(given.get("host", os.environ.get("PGHOST", "")))
    if "host" not in given:
        return {"target_session_attrs": "primary"} if several else {}
    return {"hostaddr": "", "target_session_attrs": "primary" if several else "any"}


def _environment(parts: dict[str, Any]) -> str:
    """Which variables had a say in a connection that failed; never their values."""
    options = {
        option.envvar.decode(): option.keyword.decode() for option in pq.Conninfo.get_defaults() if option.envvar
    }
    sessions = ("PGTZ", "PGDATESTYLE", "PGGEQO", "PGSERVICEFILE", "PGPASSFILE", "PGSYSCONFDIR")
    names = {name for name, keyword in options.items() if keyword not in parts} | {*sessions}
    told = ", ".join(sorted(name for name in names if os.environ.get(name)))
    return f" (the environment sets {told})" if told else ""


def _within(patience: float, gen: Generator[Any, Any, T]) -> Generator[Any, Any, T]:
    """What psycopg waits with, ended when the server says nothing for too long."""
    deadline = monotonic() + patience
    try:
        state = next(gen)
        while True:
            ready = yield state
            if not ready and monotonic() > deadline:
                raise psycopg.OperationalError(f"no answer within {patience:g} s")
            state = gen.send(ready)
    except StopIteration as end:
        result: T = end.value
        return result
