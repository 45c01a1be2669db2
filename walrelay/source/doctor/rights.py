"""What the relay's role has to have the right to, and how `walrelay init` can be run by one that has less."""

from walrelay.source.catalog import Catalog
from walrelay.source.doctor.expected import Expected
from walrelay.source.grants import Right
from walrelay.source.not_connected import without_password

OWN = "walrelay"  # the schema


def of_the_relay(expected: Expected) -> list[Right]:
    """Without these `walrelay run` does not begin, or ends where it first needs one."""
    rights = [
        Right("USAGE", expected.schema),
        Right("USAGE", OWN),
        Right("SELECT", OWN, "slots"),
    ]
    if expected.position_in_table:
        rights += [Right(privilege, OWN, "positions") for privilege in ("SELECT", "INSERT", "UPDATE")]
    if expected.sets_aside:
        rights += [Right(privilege, OWN, "dead_letters") for privilege in ("SELECT", "INSERT", "UPDATE")]
    return rights


def of_the_relay_besides(expected: Expected) -> list[Right]:
    """Without these it runs, and does not all that it is asked to."""
    rights = [Right("SELECT", OWN, "dead_letters")]
    if expected.retention:
        rights += [Right(privilege, expected.schema, expected.table) for privilege in ("SELECT", "DELETE")]
    return rights


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
