"""Rows that writers believe to be in the outbox, and that are no events."""

from collections.abc import Iterator

from walrelay.model import Finding
from walrelay.operations.doctor.expected import Expected, problem, warning
from walrelay.operations.doctor.table import look
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.parts import inheriting

_ROW_BEFORE_INSERT = 1 | 2 | 4  # tgtype: FOR EACH ROW, BEFORE, INSERT
_INSTEAD_OF_INSERT = "3"  # ev_type


def inheritance(catalog: Catalog, expected: Expected) -> Iterator[Finding]:
    """Rows of tables that inherit from the outbox are shown by a query of it, and are in no slot's stream."""
    for child in inheriting(catalog, expected.outbox):
        fix = f"ALTER TABLE {child.name} NO INHERIT {expected.outbox};"
        detail = f"{child.name} inherits from {expected.name}"
        if child.has_rows:
            more = "  -- rows of it that are inserted into the outbox are published"
            yield problem("table", f"{detail}, and has rows: they are no events", fix + more)
        else:
            yield warning("table", f"{detail}: rows that are written there are no events", fix)


def swallowed(catalog: Catalog, expected: Expected) -> Iterator[Finding]:
    """A trigger or a rule can keep a row out of the outbox that its writer was told is in it."""
    table = look(catalog, expected)
    if table is None:
        return
    triggers = catalog.rows(
        r"""
        SELECT quote_ident(tgname), tgqual IS NULL AND prosrc !~* '\mreturn\s+new\M'
        FROM pg_trigger t JOIN pg_proc p ON p.oid = tgfoid
        WHERE tgrelid IN (SELECT %s::oid UNION SELECT relid FROM pg_partition_tree(%s)) AND tgparentid = 0
          AND NOT tgisinternal AND tgenabled IN ('O', 'A') AND tgtype & %s = %s AND prosrc ~* '\mreturn\s+null\M'
        ORDER BY 1
        """,
        table.oid,
        table.oid,
        _ROW_BEFORE_INSERT,
        _ROW_BEFORE_INSERT,
    )
    rules = catalog.rows(
        "SELECT quote_ident(rulename), ev_qual::text = '<>' FROM pg_rewrite WHERE ev_class = %s AND ev_type = %s"
        " AND is_instead AND ev_enabled IN ('O', 'A') ORDER BY 1",
        table.oid,
        _INSTEAD_OF_INSERT,
    )
    for kind, found, fix in (
        ("trigger", triggers, f"ALTER TABLE {expected.outbox} DISABLE TRIGGER {{}};"),
        ("rule", rules, f"ALTER TABLE {expected.outbox} DISABLE RULE {{}};"),
    ):
        for name, every in found:
            if every:
                detail = f"{kind} {name} of {expected.name} keeps every row out of it, so no event comes of an INSERT"
                yield problem("table", detail, fix.format(name))
            else:
                detail = f"{kind} {name} of {expected.name} can keep a row out of it: that row is no event"
                yield warning("table", detail, fix.format(name))
