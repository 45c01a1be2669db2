"""How `walrelay init` can be run: as the relay's own role, or its SQL by one that may."""

from walrelay.source.catalog import Catalog
from walrelay.source.doctor.connection import without_password
from walrelay.source.doctor.expected import Expected


def init_command(catalog: Catalog, expected: Expected, *, owner_of: int | None) -> str:
    """`walrelay init`, or its SQL given to psql where the role may not make schemas and publications itself.

    `owner_of`: the table that is to be published, for which one must own it.
    """
    may = catalog.value(
        """
        SELECT rolsuper OR (has_database_privilege(current_database(), 'CREATE')
               AND coalesce((SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = %s), true))
        FROM pg_roles WHERE rolname = current_user
        """,
        owner_of,
    )
    if may:
        return expected.walrelay("init")
    dsn = without_password(expected.dsn, user="postgres")
    return f'{expected.walrelay("init --dry-run")} | psql "{dsn}"   # as a role that may make a publication'
