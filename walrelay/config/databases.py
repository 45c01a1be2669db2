"""`databases`: a relay for each database, made of the defaults. They are named in the file, or found by a query."""

from typing import Annotated, Any, NamedTuple

from pydantic import Field, SecretStr

from walrelay.config.document import Document
from walrelay.config.several import DATABASES, name_fault
from walrelay.config.values import ConnectionString, Seconds, Section
from walrelay.errors import Fatal, NotConnected, Retryable, WalrelayError
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.failures import PostgresError

_SCHEMA = "Tables need their schema, as in FROM public.tenants; try the query with psql."
_TWO = "Write SELECT name, dsn FROM ..."


class DatabaseQuery(Section):
    """Where the databases are listed."""

    dsn: ConnectionString
    """The database in which the query is asked. A secret."""

    query: Annotated[str, Field(min_length=1)]
    """Yields a name and a DSN, both text, for each database, as in `SELECT name, dsn FROM public.tenants`."""

    look_interval: Seconds = 30
    """How often `run` asks again."""


Dsn = SecretStr


class RowFault(NamedTuple):
    """What is wrong with the row of that name."""

    name: str
    text: str


class FoundDatabases(NamedTuple):
    """The DSNs by name, and what is wrong with the other rows."""

    dsns: dict[str, Dsn]
    faults: list[RowFault]


def has_query(written: Document) -> bool:
    """Whether `databases` is a query, and not a mapping of names to DSNs."""
    section = written.value.get(DATABASES)
    return isinstance(section, dict) and "query" in section


def ask(query: DatabaseQuery) -> FoundDatabases:
    """What the query finds now. Fatal if it fails, Retryable if it cannot be asked now, or finds nothing."""
    try:
        with Catalog(query.dsn.get_secret_value()) as catalog:
            rows = catalog.rows(query.query)
    except WalrelayError as error:
        raise _failed(error) from error
    except PostgresError as error:  # there was no result
        raise Fatal("the query of `databases` yields no rows", hint=_TWO) from error
    if not rows:
        raise _later("the query of `databases` finds no database", _SCHEMA)
    if len(rows[0]) != 2:
        raise Fatal(f"the query of `databases` yields {len(rows[0])} columns, and not two", hint=_TWO)
    found = FoundDatabases({}, [])
    for name, dsn in rows:
        fault = _fault(name, dsn, found)
        if fault:
            found.faults.append(RowFault(str(name), fault))
        else:
            found.dsns[name] = Dsn(dsn)
    return found


def _failed(error: WalrelayError) -> WalrelayError:
    """The first connection's wrong password is a mistake; see NotConnected."""
    text = f"the query of `databases` failed: {error}"
    if isinstance(error, Retryable) and not (isinstance(error, NotConnected) and error.final):
        return _later(text, error.hint)
    return Fatal(text, hint=_SCHEMA if isinstance(error, Fatal) and "GRANT" not in error.hint else error.hint)


def _later(text: str, hint: str) -> Retryable:
    error = Retryable(text)
    error.hint = hint
    return error


def _fault(name: Any, dsn: Any, found: FoundDatabases) -> str:
    """Shows no DSN, which may hold a password."""
    if not isinstance(name, str) or name_fault(name):
        return f"the database {name!r} of the query is left out: its name {name_fault(str(name)) or 'is no text'}"
    if name in found.dsns:
        return f"the database {name!r} is in the query's answer twice; the first counts"
    return (
        "" if isinstance(dsn, str) and dsn else f"the database {name!r} is left out: its DSN is NULL, empty or no text"
    )
