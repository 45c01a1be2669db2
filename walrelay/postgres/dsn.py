"""What a DSN says and where it leads: its faults, the cure of a refused connection, poolers that share sessions.

A lock taken on a shared session belongs to a session that others use, and may stay for ever; and settings such as
synchronous_commit and search_path would reach the application's transactions. No command asks a pooler for its mode:
PgBouncer answers such questions only on a connection of its own kind. But where sessions are shared, two connections
that take turns meet the same session, or one of them meets several.
"""

import re
from difflib import get_close_matches
from typing import Any, NamedTuple

import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from walrelay.errors import Fatal
from walrelay.identifiers import identifier
from walrelay.postgres.failures import first_line


def address(dsn: str) -> str:
    """Where the DSN points, for messages; without the password."""
    try:
        parts = conninfo_to_dict(dsn)
    except psycopg.ProgrammingError:
        return "the DSN"
    host, port = parts.get("host") or parts.get("hostaddr") or "the default host", parts.get("port") or 5432
    return f"{host}:{port}/{parts.get('dbname') or ''}"


def server(dsn: str) -> str:
    """Host and port as the DSN writes them, to compare: slots belong to a server, not to a database."""
    return address(dsn).rpartition("/")[0]


def conninfo_fault(dsn: str) -> str:
    """Why libpq cannot read the connection string, without quoting it; empty if it can."""
    try:
        parts = conninfo_to_dict(dsn)
    except psycopg.ProgrammingError as error:  # whose text quotes the DSN, and so perhaps the password
        unknown = re.match(r'invalid (?:connection option|URI query parameter):? "(\w+)"', first_line(error))
        close = get_close_matches(unknown[1], _KEYWORDS, n=1, cutoff=0.5) if unknown else []
        if close:
            return f"is a keyword misspelled ({close[0]})?"
        return "special characters of a URL are written as %40 and the like, and keywords as host=... dbname=..."
    ports = str(parts.get("port") or "5432").split(",")
    if not all(port.isascii() and port.isdigit() and 0 < int(port[:9]) < 65536 for port in ports if port):
        return "a port is a number from 1 to 65535"
    return ""


_KEYWORDS = [option.keyword.decode() for option in pq.Conninfo.get_defaults()]


def application_name(dsn: str) -> str:
    """The name of the relay's walsender, as walrelay.postgres.connect sets it."""
    return str(conninfo_to_dict(dsn).get("application_name") or "walrelay")


def each_host(dsn: str) -> list[str]:
    """One DSN per host of a DSN that has several. libpq pairs hosts and ports, or uses one port for all."""
    given = conninfo_to_dict(dsn)
    hosts = str(given.get("host") or "").split(",")
    ports = str(given.get("port") or "").split(",")
    if len(hosts) < 2 or len(ports) not in (1, len(hosts)):
        return []
    each = ports * len(hosts) if len(ports) == 1 else ports
    return [
        make_conninfo(dsn, host=host, port=port or None, target_session_attrs="any")
        for host, port in zip(hosts, each, strict=True)
    ]


def without_password(dsn: str, *without: str, **changed: str) -> str:
    """The DSN as keywords, to show and to paste. `without`: further keywords to leave out."""
    kept = {name: value for name, value in _given(dsn).items() if name not in without}
    return make_conninfo(**{**kept, **changed})


def passwords(dsn: str) -> list[str]:
    """All that are in it, of keys of certificates too."""
    return [str(value) for name, value in conninfo_to_dict(dsn).items() if "password" in name]


def _given(dsn: str) -> dict[str, str]:
    return {name: str(value) for name, value in conninfo_to_dict(dsn).items() if "password" not in name}


class Cure(NamedTuple):
    """`fix`: to be pasted. `final`: the server answered, and answers the same until the cause is fixed."""

    fix: str
    final: bool


def refusal(text: str) -> str:
    """The server's words without the repeated address."""
    return re.sub(r"connection to server at .*? failed: (FATAL: +)?", "", text)


def cure(text: str, dsn: str) -> Cure:
    """What to paste after a refused connection. libpq gives no SQLSTATE for it, so the text has to do; where it is
    translated or unknown, the fix is a command that shows whether a server listens.
    """
    if match := re.search(
        r'pg_hba.conf.* host "(?P<host>[^"]*)", user "(?P<user>[^"]*)", database "(?P<db>[^"]*)"', text
    ):
        return Cure(_access(**match.groupdict()), True)
    if match := re.search(r'password authentication failed for user "([^"]*)"', text):
        return Cure(f"ALTER ROLE {identifier(match[1])} PASSWORD '...';  -- the one in source.dsn", True)
    if "no password supplied" in text:
        return Cure(f"source.dsn: {without_password(dsn, password='...')}", True)
    if match := re.search(r'role "([^"]*)" does not exist', text):
        return Cure(f"CREATE ROLE {identifier(match[1])} LOGIN REPLICATION PASSWORD '...';", True)
    if match := re.search(r'role "([^"]*)" is not permitted to log in', text):
        return Cure(f"ALTER ROLE {identifier(match[1])} LOGIN;", True)
    if match := re.search(r'database "([^"]*)" does not exist', text):
        return Cure(f"CREATE DATABASE {identifier(match[1])};  -- or correct source.dsn", True)
    if match := re.search(r'permission denied for database "([^"]*)"', text):
        user = identifier(_given(dsn).get("user", "user"))
        return Cure(f"GRANT CONNECT ON DATABASE {identifier(match[1])} TO {user};", True)
    if match := re.search(r'database "([^"]*)" is not currently accepting connections', text):
        if match[1] == "template0":
            return Cure(
                f"source.dsn: {without_password(dsn, dbname='DATABASE')}   # template0 takes no connections", True
            )
        return Cure(f"ALTER DATABASE {identifier(match[1])} ALLOW_CONNECTIONS true;  -- or correct source.dsn", True)
    if match := re.search(r'exceeds "?max_wal_senders"? \(currently (\d+)\)', text):
        more = f"ALTER SYSTEM SET max_wal_senders = {int(match[1]) + 10};  -- then restart PostgreSQL"
        return Cure(more, False)
    if "too many clients already" in text or "remaining connection slots are reserved" in text:
        return Cure("SHOW max_connections;  -- ALTER SYSTEM SET it to more, then restart PostgreSQL", False)
    if "does not support SSL" in text:
        plain = without_password(dsn, "sslrootcert", "channel_binding", sslmode="disable")
        return Cure(f"ALTER SYSTEM SET ssl = on; SELECT pg_reload_conf();  -- or source.dsn: {plain}", True)
    if "channel binding" in text and "require" in text:
        fix = f"source.dsn: {without_password(dsn, channel_binding='prefer')}"
        return Cure(f"{fix}   # or TLS, and scram-sha-256 in pg_hba.conf", True)
    if "authentication method requirement" in text:
        return Cure(f"source.dsn: {without_password(dsn, 'require_auth')}   # or that method in pg_hba.conf", True)
    if "session is read-only" in text:  # which libpq says of a primary, too, where default_transaction_read_only is on
        return Cure(f"source.dsn: {without_password(dsn, target_session_attrs='primary')}", False)
    if "session is not read-only" in text or "server is not in hot standby mode" in text:
        primary = without_password(dsn, target_session_attrs="primary")
        return Cure(f"source.dsn: {primary}   # a relay reads the primary", True)
    if "server is in hot standby mode" in text:
        return Cure(f"source.dsn: {without_password(dsn, host='the.primary')}   # this server is a standby", False)
    if "invalid response to SSL negotiation" in text or "expected authentication request" in text:
        return Cure(f"source.dsn: {without_password(dsn, port='5432')}   # no PostgreSQL answers at that port", True)
    if "unsupported startup parameter" in text:
        there = without_password(dsn, host="the.server", port="5432")
        return Cure(f"source.dsn: {there}   # PostgreSQL itself: a pooler answers here", True)
    place = {name: value for name, value in _given(dsn).items() if name in ("host", "hostaddr", "port")}
    look = f'pg_isready --dbname="{make_conninfo(**place)}"  # no answer: start PostgreSQL, or correct source.dsn'
    return Cure(look, False)


def _access(host: str, user: str, db: str) -> str:
    """pg_hba.conf matches logical replication by the database's name, not the word `replication` (guarantees A39)."""
    kind, place = ("local", "") if host == "[local]" else ("host", f" {host}/{128 if ':' in host else 32}")
    return f'{kind} "{db}" "{user}"{place} scram-sha-256   # into pg_hba.conf; then SELECT pg_reload_conf();'


_ROUNDS = 5
_QUEUED = 1.0  # seconds

# The session has nothing of ours yet: the search_path is the role's, and so is how it prints a time.
_SESSION = b"SELECT pg_catalog.pg_backend_pid(), pg_catalog.date_part('epoch', pg_catalog.pg_postmaster_start_time())"
_PLACE = b"SELECT pg_catalog.host(pg_catalog.inet_server_addr()), pg_catalog.current_setting('port')"


class SharedSession(Fatal):
    """The pooler gives the connection's session to others between transactions."""

    page = "server"


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
            " pooling): a lock taken there protects nothing, and walrelay's settings would change the sessions of"
            " applications",
            hint=direct_dsn(one, dsn),
        )


def direct_dsn(connection: psycopg.Connection[Any], dsn: str) -> str:
    """The DSN of the server itself, by the address it reports; the peer of a socket would be the pooler's host."""
    ((host, port),) = connection.execute(_PLACE, prepare=False).fetchall()
    there = without_password(dsn, port=port, **({"host": host} if host else {}))
    return f"source.dsn: {there}   # PostgreSQL itself, past the pooler (PgBouncer can from 1.23 on)"


def _session(connection: psycopg.Connection[Any]) -> tuple[Any, ...]:
    # Not prepared: another session would not know the statement.
    ((pid, server),) = connection.execute(_SESSION, prepare=False).fetchall()
    return pid, server
