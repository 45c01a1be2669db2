"""The rows of the outbox as they were at one moment: at a new slot's beginning, or now."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from math import inf
from time import monotonic, sleep
from typing import Any

from psycopg import adapters, pq
from psycopg.adapt import Loader

from walrelay.errors import Fatal, Retryable
from walrelay.identifiers import identifier
from walrelay.postgres import connect, rights
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.failures import ErrorWords, PostgresError, StatementTimeout, explained, first_line
from walrelay.wire.commands import literal

_AT_ONCE = 20 if pq.version() >= 170000 else 1  # rows that libpq hands over together; a later one can do several
_COMMITS, _LOOK = 5.0, 0.01  # seconds to wait for commits, and between two looks
_BASE_TYPES = frozenset(oid for info in adapters.types for oid in (info.oid, info.array_oid))
_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"
_WORDS = ErrorWords(
    "the connection that reads the outbox broke",
    "the rows of the outbox cannot all be read",
    "the rows of the outbox cannot be read",
    again=Retryable,
)


class View:
    """An ordinary connection in one read-only transaction: all its queries see the rows of the same moment.

    It is proven to end on the same server as the catalog `beside` it, whose answers are used with the rows.

    `xmin`: every transaction below it had ended. `xmax`: every visible row is of one below it. PostgreSQL's own xmax of
    a new slot's snapshot can be less than its xmin: a commit before PostgreSQL tracks commits does not raise it.

    `stream` yields the bytes that PostgreSQL prints under the settings of a replication connection, so a row read here
    and the same row in the stream have the same bytes.
    """

    def __init__(self, dsn: str, beside: Catalog, snapshot: str | None = None) -> None:
        self._connection = connect.ordinary(dsn, statement_timeout=0)
        self._connection.patience = inf  # sorting a large table takes its time; keepalives find a dead host
        try:
            beside.refuse_another_server(connect.backend(self._connection))
            self._begin(snapshot)
            if snapshot is not None:
                self._await_commits(beside)
        except BaseException:
            self.close()
            raise

    def _begin(self, snapshot: str | None) -> None:
        with self._explained(""):
            if self._connection.info.parameter_status("server_encoding") == "SQL_ASCII":
                self._connection.execute("SET client_encoding = 'SQL_ASCII'")
            # A policy would hide rows without a word; with this it is an error.
            self._connection.execute("SET row_security = off")
            self._connection.execute(_READ.encode())
            if snapshot is not None:
                self._connection.execute(f"SET TRANSACTION SNAPSHOT {literal(snapshot)}".encode())
        self._learn()

    def _learn(self) -> None:
        ((self.xmin, self.xmax, self.microseconds),) = self.rows(
            "SELECT pg_snapshot_xmin(s)::text::int8,"
            " greatest(pg_snapshot_xmin(s)::text::int8, pg_snapshot_xmax(s)::text::int8),"
            " (extract(epoch FROM now()) * 1000000)::int8 FROM pg_current_snapshot() AS s"
        )

    def _await_commits(self, beside: Catalog) -> None:
        """Waits until the transactions whose rows the snapshot shows have ended for all others too: five seconds.

        The snapshot of a slot shows what is committed in the WAL. A backend may note its commit in pg_xact a little
        later, and until then its rows would be taken for those of an aborted transaction, and marked as such for good.
        (A commit that waits for a synchronous standby has been noted, and may wait for hours.)
        """
        running = (
            "SELECT pg_snapshot_xmax(s)::text::int8, ARRAY(SELECT pg_snapshot_xip(s)::text)"
            " FROM pg_current_snapshot() AS s"
        )
        shown = "SELECT 1 FROM unnest(%s::text[]) AS x WHERE pg_visible_in_snapshot(x::xid8, pg_current_snapshot())"
        deadline = monotonic() + _COMMITS
        while monotonic() < deadline:
            ((ended_below, still_running),) = beside.rows(running)
            if ended_below >= self.xmax and not self.rows(shown, [still_running]):
                return
            sleep(_LOOK)

    def __enter__(self) -> "View":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    def rows(self, query: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """`%s` is a parameter, and `%%` a per cent sign."""
        with self._explained(query):
            return self._connection.execute(query.encode(), list(parameters)).fetchall()

    def stream(self, query: str, parameters: Sequence[Any], types: Sequence[int]) -> Iterator[tuple[bytes | None, ...]]:
        """The rows one by one, a few in memory; `types` are the OIDs of the selected values."""
        with self._explained(query), self._connection.cursor() as cursor:
            for oid in {0, *types, *_BASE_TYPES}:  # the server names the base type of a domain
                cursor.adapters.register_loader(oid, _Bytes)
            yield from cursor.stream(query.encode(), list(parameters), size=_AT_ONCE)

    def _explained(self, query: str) -> AbstractContextManager[None]:
        user = identifier(self._connection.info.user)
        hidden = f"Row-level security hides some: ALTER ROLE {user} BYPASSRLS;"
        return explained(_WORDS, lambda: rights.grants_for_statement(self._connection, query) or hidden)


class BorrowedView(View):
    """A View on the catalog's own connection, with its statement timeout, for a few questions: one connection is
    enough. The transaction ends when it is closed, and the settings with it.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._connection = catalog.connection
        try:
            with self._explained(""):
                self._connection.execute(_READ.encode())
                self._connection.execute("SET LOCAL row_security = off")
                if self._connection.info.parameter_status("server_encoding") == "SQL_ASCII":
                    self._connection.execute("SET LOCAL client_encoding = 'SQL_ASCII'")
            self._learn()
        except BaseException:
            self.close()
            raise

    def _explained(self, query: str) -> AbstractContextManager[None]:
        return self._in_time(super()._explained(query))

    @contextmanager
    def _in_time(self, explained: AbstractContextManager[None]) -> Iterator[None]:
        with explained:
            try:
                yield
            except StatementTimeout as cause:
                raise Fatal(
                    f"the search for rows was given up: {first_line(cause)}",
                    hint="Ask for ids, or for a shorter period; or give the table an index for what is asked for.",
                    page="server",
                ) from cause

    def close(self) -> None:
        if not (self._connection.closed or connect.is_idle(self._connection)):
            with suppress(PostgresError):
                self._connection.execute("ROLLBACK")


class _Bytes(Loader):
    def load(self, data: pq.abc.Buffer) -> bytes:
        return bytes(data)
