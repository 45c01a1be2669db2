"""Why no connection to PostgreSQL was made, and what to do about it."""

import re
from typing import NamedTuple

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from walrelay.identifiers import identifier


class Cure(NamedTuple):
    """`fix` is to be pasted; `final`: the server answered, and will say the same again until somebody does."""

    fix: str
    final: bool


def refusal(text: str) -> str:
    """What was said, without saying twice where."""
    return re.sub(r"connection to server at .*? failed: (FATAL: +)?", "", text)


def cure(text: str, dsn: str) -> Cure:
    """What to paste against a refusal. libpq gives no SQLSTATE for one, so the text must do; where it is translated
    or unknown, a command that shows whether anyone listens is the next step.
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
            return Cure(f"source.dsn: {without_password(dsn, dbname='DATABASE')}   # template0 is nobody's", True)
        return Cure(f"ALTER DATABASE {identifier(match[1])} ALLOW_CONNECTIONS true;  -- or correct source.dsn", True)
    if "does not support SSL" in text:
        plain = without_password(dsn, sslmode="disable")
        return Cure(f"ALTER SYSTEM SET ssl = on; SELECT pg_reload_conf();  -- or source.dsn: {plain}", True)
    if "invalid response to SSL negotiation" in text or "expected authentication request" in text:
        return Cure(f"source.dsn: {without_password(dsn, port='5432')}   # no PostgreSQL answers at that port", True)
    if "unsupported startup parameter" in text:
        address = without_password(dsn, host="the.server", port="5432")
        return Cure(f"source.dsn: {address}   # PostgreSQL itself: a pooler answers here", True)
    place = {name: value for name, value in _given(dsn).items() if name in ("host", "hostaddr", "port")}
    look = f'pg_isready --dbname="{make_conninfo(**place)}"  # nobody there: start PostgreSQL, or correct source.dsn'
    return Cure(look, False)


def without_password(dsn: str, **changed: str) -> str:
    """The DSN in keywords, to show and to paste."""
    return make_conninfo(**{**_given(dsn), **changed})


def _given(dsn: str) -> dict[str, str]:
    return {name: str(value) for name, value in conninfo_to_dict(dsn).items() if "password" not in name}


def _access(host: str, user: str, db: str) -> str:
    """Logical replication is matched by the database's name, not by the word `replication` (PITFALLS A39)."""
    kind, address = ("local", "") if host == "[local]" else ("host", f" {host}/{128 if ':' in host else 32}")
    return f'{kind} "{db}" "{user}"{address} scram-sha-256   # into pg_hba.conf; then SELECT pg_reload_conf();'
