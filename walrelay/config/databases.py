"""`databases`: a relay for each database, made of the defaults. They are named in the file, or found by a query."""

from typing import Annotated, Any, NamedTuple

from pydantic import Field, SecretStr

from walrelay.config.document import Document
from walrelay.config.several import DATABASES, name_fault
from walrelay.config.values import ConnectionString, Seconds, Section
from walrelay.errors import Fatal, WalrelayError
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.failures import PostgresError

_SCHEMA = "Tables need their schema, as in FROM public.tenants; try the query with psql."


class DatabaseQuery(Section):
    """Where the databases are listed."""

    dsn: ConnectionString
    """The database in which the query is asked. A secret."""

    query: Annotated[str, Field(min_length=1)]
    """Yields a name and a DSN, both text, for each database, as in `SELECT name, dsn FROM public.tenants`."""

    look_interval: Seconds = 30
    """How often `run` asks again."""


Dsn = SecretStr


class Found(NamedTuple):
    """The DSNs by name, and what is wrong with the other rows."""

    dsns: dict[str, Dsn]
    faults: list[str]


def has_query(written: Document) -> bool:
    """Whether `databases` is a query, and not a mapping of names to DSNs."""
    section = written.value.get(DATABASES)
    return isinstance(section, dict) and "query" in section


def ask(query: DatabaseQuery) -> Found:
    """What the query finds now; Fatal if it fails or finds nothing."""
    try:
        with Catalog(query.dsn.get_secret_value()) as catalog:
            rows = catalog.rows(query.query)
    except WalrelayError as error:
        raise Fatal(f"the query of `databases` failed: {error}", hint=_hint(error)) from error
    except PostgresError as error:  # there was no result
        raise Fatal("the query of `databases` yields no rows", hint="Write SELECT name, dsn FROM ...") from error
    found = Found({}, [])
    for row in rows:
        fault = _fault(row, found)
        if fault:
            found.faults.append(fault)
        else:
            found.dsns[row[0]] = Dsn(row[1])
    if not rows:
        raise Fatal("the query of `databases` finds no database", hint=_SCHEMA)
    return found


def _hint(error: WalrelayError) -> str:
    return _SCHEMA if isinstance(error, Fatal) and "GRANT" not in error.hint else error.hint


def _fault(row: tuple[Any, ...], found: Found) -> str:
    """Shows no DSN, which may hold a password."""
    if len(row) != 2:
        return f"the query of `databases` yields {len(row)} columns: write SELECT name, dsn FROM ..."
    name, dsn = row
    if not isinstance(name, str) or name_fault(name):
        return f"the database {name!r} of the query is left out: its name {name_fault(str(name)) or 'is no text'}"
    if name in found.dsns:
        return f"the database {name!r} is in the query's answer twice; the first counts"
    return (
        "" if isinstance(dsn, str) and dsn else f"the database {name!r} is left out: its DSN is NULL, empty or no text"
    )
