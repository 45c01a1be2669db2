"""What a role may not do of what a command is going to do: asked for as a whole, before anything is changed."""

from collections.abc import Sequence

from walrelay.errors import Fatal
from walrelay.identifiers import identifier
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.grants import Lacking, role, statements


def to_drop(catalog: Catalog, publication: str) -> list[Lacking]:
    """What it takes to drop a publication, if there is one of that name."""
    owner = catalog.value(
        "SELECT pg_get_userbyid(pubowner)::text FROM pg_publication WHERE pubname = %s"
        " AND NOT pg_has_role(pubowner, 'USAGE')",
        publication,
    )
    name = role(catalog.connection)
    return (
        [] if owner is None else [Lacking(f"drop publication {publication}", f"GRANT {identifier(owner)} TO {name};")]
    )


def to_replicate(catalog: Catalog) -> list[Lacking]:
    """What it takes to make, read and drop a slot: REPLICATION, or on Amazon RDS membership in rds_replication, which
    stands for it there.
    """
    ((may, on_rds),) = catalog.rows(
        "SELECT r.rolreplication OR r.rolsuper OR coalesce(pg_has_role(r.oid, rds.oid, 'MEMBER'), false),"
        " rds.oid IS NOT NULL FROM pg_roles r LEFT JOIN pg_roles rds ON rds.rolname = 'rds_replication'"
        " WHERE r.rolname = current_user"
    )
    name = role(catalog.connection)
    grant = f"GRANT rds_replication TO {name};" if on_rds else f"ALTER ROLE {name} REPLICATION;"
    return [] if may else [Lacking("use replication slots", grant)]


def refuse(catalog: Catalog, missing: Sequence[Lacking], to: str) -> None:
    """Fatal if there are any, all of them in one message, with what is to be done."""
    if missing:
        raise Fatal(
            f"the role {role(catalog.connection)} may not {to}:"
            f" it may not {', nor '.join(each.what for each in missing)}; nothing was changed",
            hint=statements(missing),
        )
