"""The ordinary connection: made or not, and what to do about it."""

import re

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from walrelay.errors import Fatal
from walrelay.identifiers import identifier
from walrelay.model import Finding
from walrelay.source.catalog import Catalog
from walrelay.source.doctor.expected import Expected, ok, problem
from walrelay.source.failures import first_line


def made(catalog: Catalog) -> Finding:
    info = catalog.connection.info
    version = info.parameter_status("server_version") or str(info.server_version)
    return ok("connection", f"PostgreSQL {version.split()[0]} at {info.host}:{info.port}/{info.dbname} as {info.user}")


def failed(expected: Expected, cause: Exception) -> Finding:
    if isinstance(cause, Fatal):
        return problem("connection", str(cause), "source.dsn: postgresql://user@host/db")
    return problem("connection", refusal(cause), cure(first_line(cause), expected.dsn))


def refusal(cause: Exception) -> str:
    """What was said, without saying twice where."""
    return re.sub(r"connection to server at .*? failed: (FATAL: +)?", "", first_line(cause))


def cure(text: str, dsn: str) -> str:
    """What to paste against a refusal. libpq gives no SQLSTATE for one, so the text must do; where it is translated
    or unknown, a command that shows whether anyone listens is the next step.
    """
    if match := re.search(
        r'pg_hba.conf.* host "(?P<host>[^"]*)", user "(?P<user>[^"]*)", database "(?P<db>[^"]*)"', text
    ):
        return _access(**match.groupdict())
    if match := re.search(r'password authentication failed for user "([^"]*)"', text):
        return f"ALTER ROLE {identifier(match[1])} PASSWORD '...';  -- the one in source.dsn"
    if match := re.search(r'role "([^"]*)" does not exist', text):
        return f"CREATE ROLE {identifier(match[1])} LOGIN REPLICATION PASSWORD '...';"
    if match := re.search(r'role "([^"]*)" is not permitted to log in', text):
        return f"ALTER ROLE {identifier(match[1])} LOGIN;"
    if match := re.search(r'database "([^"]*)" does not exist', text):
        return f"CREATE DATABASE {identifier(match[1])};  -- or correct source.dsn"
    if match := re.search(r'permission denied for database "([^"]*)"', text):
        return f"GRANT CONNECT ON DATABASE {identifier(match[1])} TO {identifier(_given(dsn).get('user', 'user'))};"
    place = {name: value for name, value in _given(dsn).items() if name in ("host", "hostaddr", "port")}
    return f'pg_isready --dbname="{make_conninfo(**place)}"  # nobody there: start PostgreSQL, or correct source.dsn'


def without_password(dsn: str, **changed: str) -> str:
    """The DSN in keywords, to show and to paste."""
    return make_conninfo(**{**_given(dsn), **changed})


def _given(dsn: str) -> dict[str, str]:
    return {name: str(value) for name, value in conninfo_to_dict(dsn).items() if "password" not in name}


def _access(host: str, user: str, db: str) -> str:
    """Logical replication is matched by the database's name, not by the word `replication` (PITFALLS A39)."""
    kind, address = ("local", "") if host == "[local]" else ("host", f" {host}/{128 if ':' in host else 32}")
    return f'{kind} "{db}" "{user}"{address} scram-sha-256   # into pg_hba.conf; then SELECT pg_reload_conf();'
