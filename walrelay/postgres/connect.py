"""Connections to PostgreSQL: one that replicates, and ordinary ones for everything that has parameters."""

import os
import re
import select
from collections.abc import Callable, Generator
from contextlib import closing, suppress
from time import monotonic
from typing import Any, NamedTuple, TypeVar

import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from walrelay.errors import Disconnected, Fatal, NotConnected, WalrelayError
from walrelay.postgres.dsn import OwnSession, QueuedConnection, address, cure, has_pooler, refuse_shared
from walrelay.postgres.failures import connection_broke, first_line, server_message
from walrelay.postgres.session import session

# A relay whose host died, or whose network went silent, is noticed in half a minute instead of hours.
_DEFAULTS: dict[str, Any] = {
    "connect_timeout": 10,
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}

Cursor = psycopg.Cursor[tuple[Any, ...]]
Result = pq.abc.PGresult
Status = pq.ExecStatus
Transaction = pq.TransactionStatus

NO_FILE = "58P01"  # undefined_file: the history file of a timeline was removed, or not restored

_SLICE = 0.1  # seconds between two looks at whether to stop
_SLACK = 5.0  # seconds that an answer may take longer than the server works on it

T = TypeVar("T")


class Connection(psycopg.Connection[tuple[Any, ...]]):
    """Waits `patience` seconds for an answer and no longer: behind a proxy or a load balancer, TCP acknowledges what no
    server reads, for ever.

    While no answer comes, `meanwhile` is called ten times a second with the seconds waited so far; an error that it
    raises ends the wait.
    """

    patience = 10.0
    meanwhile: Callable[[float], object] = staticmethod(lambda waited: None)

    def wait(self, gen: Generator[Any, Any, T], *arguments: Any, **options: Any) -> T:
        return super().wait(_within(self.patience, self.meanwhile, gen), *arguments, **options)


def replication(dsn: str) -> Connection:
    """A replication connection to the database; Disconnected where none can be made."""
    connection = _connect(dsn, replication="database", application_name="walrelay")
    _set(connection, session(connection.info.server_version))
    if connection.pgconn.parameter_status(b"server_encoding") == b"SQL_ASCII":
        _set(connection, "SET client_encoding = 'SQL_ASCII'")  # as UTF8 the server would refuse other bytes
    return connection


def ordinary(dsn: str, *, statement_timeout: float = 5.0) -> Connection:
    """An ordinary connection in autocommit mode, with a session of its own; `statement_timeout` in seconds."""
    connection = _connect(dsn, application_name="walrelay control")
    try:
        if has_pooler(connection):
            with closing(_connect(dsn, application_name="walrelay control")) as another, suppress(OwnSession):
                another.meanwhile = QueuedConnection(connection).look
                refuse_shared(connection, another, dsn)
        connection.execute(session(connection.info.server_version).encode())
        set_statement_timeout(connection, statement_timeout)
    except psycopg.OperationalError as cause:
        connection.close()
        raise Disconnected(f"the connection to PostgreSQL at {address(dsn)} broke: {first_line(cause)}") from cause
    except WalrelayError:
        connection.close()
        raise
    return connection


def _set(connection: Connection, command: str) -> None:
    """A session without these settings would read values that are not what they seem."""
    result = answer(connection, command)
    if result.status != pq.ExecStatus.COMMAND_OK:
        connection.close()
        raise Disconnected(f"PostgreSQL did not accept {command!r}: {server_message(result)}")


def set_statement_timeout(connection: Connection, seconds: float) -> None:
    connection.execute(f"SET statement_timeout = {int(seconds * 1000)}".encode())
    connection.patience = seconds + _SLACK


def is_idle(connection: Connection) -> bool:
    """Whether it can be used for something else: it is open, and in no transaction."""
    return not connection.closed and connection.info.transaction_status == pq.TransactionStatus.IDLE


class Backend(NamedTuple):
    """A server process that serves a connection. PID and start time, in microseconds, identify it even between a server
    and its copy, so they identify the server.
    """

    pid: int
    started: int  # microseconds since 1970-01-01 UTC
    address: str  # of the server, by its own account


_BACKEND = (
    "SELECT pid, (extract(epoch FROM backend_start) * 1000000)::int8,"
    " coalesce(host(inet_server_addr()) || ':' || inet_server_port(), 'a local socket')"
    " FROM pg_stat_activity WHERE pid = pg_backend_pid()"
)


def backend(connection: Connection) -> Backend:
    """Asked of the server itself: a pooler in between tells libpq another PID."""
    result = answer(connection, _BACKEND)
    if result.status != pq.ExecStatus.TUPLES_OK or result.ntuples != 1:
        raise Disconnected(f"PostgreSQL does not say who serves the connection: {server_message(result)}")
    pid, started, address = ((result.get_value(0, column) or b"").decode() for column in range(3))
    return Backend(int(pid), int(started), address)


def answer(connection: Connection, command: str) -> pq.abc.PGresult:
    """The result of the last of the replication commands; an error is a result too, as with libpq's PQexec."""
    result = answer_or_stop(lambda: False, connection, command, connection.patience)
    if result is None:
        raise Disconnected("PostgreSQL gave no answer")
    return result


def answer_or_stop(
    stop: Callable[[], bool], connection: Connection, command: str, patience: float
) -> pq.abc.PGresult | None:
    """`answer`, within `patience` seconds; None as soon as `stop` is true, and then the connection cannot be used any
    more.
    """
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
        raise connection_broke(cause) from cause
    return result


def end_of_copy(
    connection: Connection, stop: Callable[[], bool], patience: float, *, ask: bool = True
) -> pq.abc.PGresult | None:
    """The result of a COPY in both directions; its remaining data is discarded. `ask`: the server has to be asked to
    end it. Disconnected where nothing comes for `patience` seconds, or `stop` is true; then the connection cannot be
    used any more.
    """
    pgconn, last = connection.pgconn, None
    poll = select.poll()
    poll.register(pgconn.socket, select.POLLIN)
    deadline = monotonic() + patience

    def wait() -> None:
        if poll.poll(_SLICE * 1000):
            pgconn.consume_input()
        elif stop() or monotonic() > deadline:
            raise Disconnected("PostgreSQL did not end the stream in time")

    try:
        pgconn.nonblocking = 0
        if ask:
            pgconn.put_copy_end()
            pgconn.flush()
        while (size := pgconn.get_copy_data(1)[0]) >= 0:
            if size == 0:
                wait()
            else:
                deadline = monotonic() + patience
        while True:
            while pgconn.is_busy():
                wait()
            if (result := pgconn.get_result()) is None:
                return last
            last = result
    except psycopg.OperationalError as cause:
        raise connection_broke(cause) from cause


def _connect(dsn: str, **forced: Any) -> Connection:
    try:
        given = conninfo_to_dict(dsn)
    except psycopg.ProgrammingError:  # whose text quotes the DSN, and so perhaps the password
        raise Fatal(
            "source.dsn is not a connection string that libpq understands",
            hint="Write postgresql://user:password@host:5432/database, with %40 and the like for special characters,"
            " or keywords: host=... dbname=...",
            page="settings",
        ) from None
    given.pop("replication", None)  # of another tool's DSN: it is for walrelay to say which connection replicates
    parts = {**_DEFAULTS, "application_name": forced.pop("application_name"), **given, **forced}
    parts["client_encoding"] = "UTF8"  # also against PGCLIENTENCODING
    parts = {**_place(given), **parts}
    try:
        return Connection.connect(make_conninfo(**parts), autocommit=True)
    except psycopg.OperationalError as cause:
        text = re.sub(r"^connection failed: ", "", first_line(cause))
        fix, final = cure(text, dsn)
        text = f"no connection to PostgreSQL at {address(dsn)}: {text}{_environment(parts)}"
        raise NotConnected(text, hint=fix, final=final) from cause


def _place(given: dict[str, Any]) -> dict[str, str]:
    """Settings for what the DSN leaves open about where it leads, so that PGHOSTADDR and PGTARGETSESSIONATTRS do not
    decide it. Several hosts mean the primary; libpq would take the first standby.
    """
    several = "," in str(given.get("host", os.environ.get("PGHOST", "")))
    if "host" not in given:
        return {"target_session_attrs": "primary"} if several else {}
    return {"hostaddr": "", "target_session_attrs": "primary" if several else "any"}


def _environment(parts: dict[str, Any]) -> str:
    """Which environment variables influenced a connection that failed; never their values."""
    options = {
        option.envvar.decode(): option.keyword.decode() for option in pq.Conninfo.get_defaults() if option.envvar
    }
    sessions = ("PGTZ", "PGDATESTYLE", "PGGEQO", "PGSERVICEFILE", "PGPASSFILE", "PGSYSCONFDIR")
    names = {name for name, keyword in options.items() if keyword not in parts} | {*sessions}
    found = ", ".join(sorted(name for name in names if os.environ.get(name)))
    return f" (the environment sets {found})" if found else ""


def _within(
    patience: float, meanwhile: Callable[[float], object], gen: Generator[Any, Any, T]
) -> Generator[Any, Any, T]:
    """psycopg's wait, ended when the server is silent for `patience` seconds."""
    begun = monotonic()
    try:
        state = next(gen)
        while True:
            ready = yield state
            if not ready:
                if monotonic() - begun > patience:
                    raise psycopg.OperationalError(f"no answer within {patience:g} s")
                meanwhile(monotonic() - begun)
            state = gen.send(ready)
    except StopIteration as end:
        result: T = end.value
        return result
