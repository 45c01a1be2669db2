"""Detects a connection pooler that gives each transaction whichever session is free.

There a lock belongs to a session that others use, and may stay for ever; and settings such as synchronous_commit and
search_path would reach the application's transactions. No command asks a pooler for its mode: PgBouncer answers such
questions only on a connection of its own kind. But where sessions are shared, two connections that take turns meet the
same session, or one of them meets several.
"""

from typing import Any

import psycopg

from walrelay.errors import Fatal
from walrelay.postgres.dsn import without_password

_ROUNDS = 5
_QUEUED = 1.0  # seconds

# The session has nothing of ours yet: the search_path is the role's, and so is how it prints a time.
_SESSION = b"SELECT pg_catalog.pg_backend_pid(), pg_catalog.date_part('epoch', pg_catalog.pg_postmaster_start_time())"
_PLACE = b"SELECT pg_catalog.host(pg_catalog.inet_server_addr()), pg_catalog.current_setting('port')"


class SharedSession(Fatal):
    """The pooler gives the connection's session to others between transactions."""


class OwnSession(Exception):
    """The connection keeps its session, although the pooler has none for another connection."""


class QueuedConnection:
    """What `one` proves while `another` waits for a session because the pooler has a place for only one of the two. A
    free session goes to the one that waits, before `one` gets it again; so if `one` is still answered, repeatedly, its
    session is its own.
    """

    def __init__(self, one: psycopg.Connection[Any]) -> None:
        self._one, self._answers = one, 0

    def look(self, waited: float) -> None:
        """To be called while `another` has waited `waited` seconds for an answer; OwnSession once that is proven."""
        if waited < _QUEUED:
            self._answers = 0
        elif self._answers == _ROUNDS:  # and still nothing has come for `another`, after the last of them
            raise OwnSession
        else:
            _session(self._one)
            self._answers += 1


def has_pooler(connection: psycopg.Connection[Any]) -> bool:
    """A pooler answers with a process id of its own, by which it knows what to cancel (seen with PgBouncer)."""
    return bool(connection.info.backend_pid != _session(connection)[0])


def refuse_shared(one: psycopg.Connection[Any], another: psycopg.Connection[Any], dsn: str) -> None:
    """SharedSession unless each of the two connections, made with this DSN, keeps a session of its own."""
    seen: dict[psycopg.Connection[Any], set[tuple[Any, ...]]] = {one: set(), another: set()}
    # Twice the same connection: a pooler that alternates two sessions would always give each the same one.
    for connection in (one, another, another) * _ROUNDS:
        seen[connection].add(_session(connection))
    if len(seen[one]) + len(seen[another]) > 2 or seen[one] == seen[another]:
        raise SharedSession(
            "the DSN leads to a connection pooler that gives each transaction another session (transaction or statement"
            " pooling): a lock taken there protects nothing, and walrelay's settings would reach the application",
            hint=direct_dsn(one, dsn),
        )


def direct_dsn(connection: psycopg.Connection[Any], dsn: str) -> str:
    """The DSN of the server itself, by the address it reports; the peer of a socket would be the pooler's host."""
    ((host, port),) = connection.execute(_PLACE, prepare=False).fetchall()
    there = without_password(dsn, port=port, **({"host": host} if host else {}))
    return f"source.dsn: {there}   # PostgreSQL itself, past the pooler (PgBouncer can only since 1.23)"


def _session(connection: psycopg.Connection[Any]) -> tuple[Any, ...]:
    # Not prepared: another session would not know the statement.
    ((pid, server),) = connection.execute(_SESSION, prepare=False).fetchall()
    return pid, server
