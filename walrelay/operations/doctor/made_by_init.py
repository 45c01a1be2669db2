"""`walrelay init`: how it can be run, and whether what it made is of these settings and of this version."""

from collections.abc import Iterator

from walrelay.model import Finding
from walrelay.operations.doctor.expected import Expected, ok, warning
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.dsn import without_password
from walrelay.postgres.slot_records import schema_is_current, slots_table_exists
from walrelay.table.functions import examine_functions


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


def current(catalog: Catalog, expected: Expected) -> Iterator[Finding]:
    """Nothing is said about what is not there: writers may do without the functions, and `init` makes the tables."""
    subject = "made by init"
    if catalog.value("SELECT has_schema_privilege(oid, 'USAGE') FROM pg_namespace WHERE nspname = 'walrelay'") is False:
        return  # the relay needs nothing of it, and another role made it
    found = list(examine_functions(catalog, expected.outbox, expected.slot, expected.functions))
    older = [f"function walrelay.{each.name}: {each.differs}" for each in found if each.differs]
    if slots_table_exists(catalog) and not schema_is_current(catalog):
        older.insert(0, "the tables of the schema walrelay are of an earlier version")
    if older:
        yield warning(subject, "; ".join(older), expected.walrelay("init"))
    for each in found:
        if each.note:
            yield ok(subject, f"function walrelay.{each.name} is left as it is: {each.note}")
    if not older and not any(each.note for each in found):
        yield ok(subject, "of these settings and this version, as far as it is there")
