"""Connection strings, as libpq reads them."""

import re
from difflib import get_close_matches

import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from walrelay.postgres.failures import first_line


def address(dsn: str) -> str:
    """Where the DSN points, for messages: never with the password."""
    try:
        parts = conninfo_to_dict(dsn)
    except psycopg.ProgrammingError:
        return "the DSN"
    host, port = parts.get("host") or parts.get("hostaddr") or "the default host", parts.get("port") or 5432
    return f"{host}:{port}/{parts.get('dbname') or ''}"


def conninfo_fault(dsn: str) -> str:
    """What keeps libpq from reading the connection string, in words that show nothing of it; empty if nothing does."""
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
    """What the relay's walsender is called: see walrelay.postgres.connect."""
    return str(conninfo_to_dict(dsn).get("application_name") or "walrelay")


def each_host(dsn: str) -> list[str]:
    """A DSN for each of the hosts in a DSN that has several; libpq pairs hosts and ports, or has one port for all."""
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
