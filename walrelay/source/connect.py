"""Connections to PostgreSQL: one that replicates, and ordinary ones for everything that has parameters."""

import re
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from walrelay.errors import Retryable
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
SESSION = (
    "SET client_encoding = 'UTF8'; SET DateStyle = 'ISO, MDY'; SET IntervalStyle = 'postgres'; SET TimeZone = 'UTC';"
    " SET extra_float_digits = 1; SET bytea_output = 'hex'; SET statement_timeout = 0; SET lock_timeout = 0"
)

Connection = psycopg.Connection[tuple[Any, ...]]


def replication(dsn: str) -> Connection:
    """A replication connection to the database; Retryable where none can be had."""
    connection = _connect(dsn, replication="database", application_name="walrelay")
    connection.pgconn.exec_(SESSION.encode())
    return connection


def ordinary(dsn: str, *, statement_timeout: float = 5.0) -> Connection:
    """An ordinary connection in autocommit mode; `statement_timeout` in seconds."""
    connection = _connect(dsn, application_name="walrelay control")
    connection.execute(f"SET statement_timeout = {int(statement_timeout * 1000)}; SET client_encoding = 'UTF8'")
    if connection.info.server_version >= 140000:
        connection.execute("SET idle_session_timeout = 0")
    return connection


def address(dsn: str) -> str:
    """Where the DSN points, for messages: never with the password."""
    try:
        parts = conninfo_to_dict(dsn)
    except psycopg.ProgrammingError:
        return "the DSN"
    host, port = parts.get("host") or parts.get("hostaddr") or "the default host", parts.get("port") or 5432
    return f"{host}:{port}/{parts.get('dbname') or ''}"


def _connect(dsn: str, **forced: Any) -> Connection:
    given = conninfo_to_dict(dsn)
    parts = {**_DEFAULTS, "application_name": forced.pop("application_name"), **given, **forced}
    parts["client_encoding"] = "UTF8"  # also against PGCLIENTENCODING
    try:
        return psycopg.connect(make_conninfo(**parts), autocommit=True)
    except psycopg.OperationalError as cause:
        text = re.sub(r"^connection failed: ", "", first_line(cause))
        raise Retryable(f"no connection to PostgreSQL at {address(dsn)}: {text}") from cause
