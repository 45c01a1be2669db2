"""What a role may not do of what a command is going to do: asked for as a whole, before anything is changed."""

from collections.abc import Sequence
from typing import NamedTuple

from walrelay.errors import Fatal
from walrelay.identifiers import identifier
from walrelay.source.catalog import Catalog

_RECORD = "walrelay.slots"


class Missing(NamedTuple):
    """A right: what it is for people, and the statement that gives it."""

    what: str
    grant: str


def recorded(catalog: Catalog) -> bool:
    """Whether there is a table of slots, be it one that the role may not use."""
    query = "SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname = %s AND relname = %s"
    return bool(catalog.value(query, *_RECORD.split(".")))


def record_rights(catalog: Catalog, *privileges: str) -> list[Missing]:
    """These on the records of slots, and what it takes to use them."""
    if not recorded(catalog):
        return []
    role = _role(catalog)
    found = []
    if not catalog.value("SELECT has_schema_privilege('walrelay', 'USAGE')"):
        found.append(Missing("use schema walrelay", f"GRANT USAGE ON SCHEMA walrelay TO {role};"))
    may = catalog.rows(
        "SELECT p FROM unnest(%s::text[]) AS p, pg_class c JOIN pg_namespace n ON n.oid = relnamespace"
        " WHERE nspname = %s AND relname = %s AND NOT has_table_privilege(c.oid, p)",
        ["SELECT", *privileges],
        *_RECORD.split("."),
    )
    if lacks := [privilege for (privilege,) in may]:
        found.append(
            Missing(f"{', '.join(lacks).lower()} in {_RECORD}", f"GRANT {', '.join(lacks)} ON {_RECORD} TO {role};")
        )
    return found


def column_rights(catalog: Catalog, column: str) -> list[Missing]:
    """That it takes to change one column of the records of slots."""
    may = catalog.value(
        "SELECT has_column_privilege(c.oid, %s, 'UPDATE') FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace"
        " WHERE nspname = %s AND relname = %s",
        column,
        *_RECORD.split("."),
    )
    if may:
        return []
    return [Missing(f"update {column} in {_RECORD}", f"GRANT UPDATE ({column}) ON {_RECORD} TO {_role(catalog)};")]


def publication_rights(catalog: Catalog, name: str) -> list[Missing]:
    """That it takes to drop a publication, if there is one of that name."""
    owner = catalog.value(
        "SELECT pg_get_userbyid(pubowner)::text FROM pg_publication WHERE pubname = %s"
        " AND NOT pg_has_role(pubowner, 'USAGE')",
        name,
    )
    if owner is None:
        return []
    return [Missing(f"drop publication {name}", f"GRANT {identifier(owner)} TO {_role(catalog)};")]


def replication_rights(catalog: Catalog) -> list[Missing]:
    """That it takes to make or drop a slot."""
    if catalog.value("SELECT rolsuper OR rolreplication FROM pg_roles WHERE rolname = current_user"):
        return []
    return [Missing("use replication slots", f"ALTER ROLE {_role(catalog)} REPLICATION;")]


def refuse_rights(catalog: Catalog, missing: Sequence[Missing], to: str) -> None:
    """Fatal if there are any, all of them in one message, with what is to be done."""
    if missing:
        raise Fatal(
            f"the role {_role(catalog)} may not {to}: it may not {', nor '.join(each.what for each in missing)};"
            " nothing was changed",
            hint=" ".join(each.grant for each in missing),
        )


def _role(catalog: Catalog) -> str:
    return identifier(catalog.connection.info.user)
