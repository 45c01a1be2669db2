"""What init gives to writers, and transactions that they keep open."""

from collections.abc import Iterator

from walrelay.model import Finding
from walrelay.operations.doctor.expected import Expected, ok, warning
from walrelay.postgres.catalog import Catalog, age
from walrelay.postgres.dsn import without_password
from walrelay.postgres.role_checks import message_rights
from walrelay.postgres.slot_records import schema_is_current, slots_table_exists
from walrelay.table.functions import UNPUBLISHED, examine_functions, function_exists
from walrelay.wire.commands import literal

LONG = 60.0  # seconds


def open_transactions(catalog: Catalog, expected: Expected) -> Iterator[Finding]:
    """Transactions of all databases that wrote something and are older than a minute, prepared ones included. They hold
    the slot's restart_lsn back, whatever the relay confirms (guarantees A4).

    A role without pg_read_all_stats does not see since when sessions of other roles write: they are left out.
    """
    found = catalog.rows(
        f"""
        SELECT pid, coalesce(application_name, ''), coalesce(state, ''), NULL, {age("xact_start")}::int8
        FROM pg_stat_activity WHERE backend_xid IS NOT NULL AND pid <> pg_backend_pid()
        UNION ALL SELECT NULL, '', 'prepared', gid, {age("prepared")}::int8 FROM pg_prepared_xacts
        ORDER BY 5 DESC
        """
    )
    long = [each for each in found if each[4] is not None and each[4] >= LONG]
    for pid, name, state, gid, seconds in long:
        who = f"prepared transaction {gid!r}" if gid is not None else f"PID {pid} ({name or 'without a name'}, {state})"
        end = f"ROLLBACK PREPARED {literal(gid)};" if gid is not None else f"SELECT pg_terminate_backend({pid});"
        detail = f"{who} has been writing for {seconds} s: all WAL since then is kept, and no slot can be created"
        yield warning("open transactions", detail, end)
    if not long:
        yield ok("open transactions", f"none is older than {LONG:.0f} s")


def messages(catalog: Catalog, expected: Expected) -> Iterator[Finding]:
    """Where logical messages are events, a role that may write them may publish; by default every role may."""
    subject = "logical messages"
    if expected.prefix is None:
        if function_exists(catalog, "emit_message"):
            yield warning(
                subject, UNPUBLISHED, "DROP FUNCTION walrelay.emit_message;  -- or set outbox.messages.prefix again"
            )
        return
    rights = message_rights(catalog, expected.writers)
    if rights.public and not rights.given:
        yield warning(subject, "every role that can connect may write them, and so publish to any topic", rights.sql)
    elif not rights.given:
        yield warning(subject, f"{', '.join(rights.lacking)} may not write them", rights.sql)
    elif rights.public:
        yield ok(subject, "every role that can connect may write them: outbox.messages.writers says public")
    else:
        yield ok(subject, f"{', '.join(rights.may) or 'no role'} may write them, besides superusers")


def init_command(catalog: Catalog, expected: Expected, *, owner_of: int | None) -> str:
    """`walrelay init`, or its SQL for psql where the role may not make schemas and publications itself.

    `owner_of`: the table to publish, which only its owner may.
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
    """No finding about missing objects: writers may do without the functions, and `init` makes the tables."""
    subject = "made by init"
    if catalog.value("SELECT has_schema_privilege(oid, 'USAGE') FROM pg_namespace WHERE nspname = 'walrelay'") is False:
        return  # made by another role; the relay does not need it
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
        yield ok(subject, "every function that exists is of these settings and this version")
