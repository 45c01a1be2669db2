"""What `walrelay init` made in the schema walrelay: whether it is of these settings and of this version."""

from collections.abc import Iterator

from walrelay.model import Finding
from walrelay.source.catalog import Catalog
from walrelay.source.doctor.expected import Expected, ok, warning
from walrelay.source.functions import examined
from walrelay.source.setup import schema_is_current


def current(catalog: Catalog, expected: Expected) -> Iterator[Finding]:
    """Nothing is said about what is not there: writers may do without the functions, and `init` makes the tables."""
    subject = "made by init"
    if catalog.value("SELECT has_schema_privilege(oid, 'USAGE') FROM pg_namespace WHERE nspname = 'walrelay'") is False:
        return  # the relay needs nothing of it, and another role made it
    found = list(examined(catalog, expected.outbox, expected.slot, expected.functions))
    older = [f"function walrelay.{each.name}: {each.differs}" for each in found if each.differs]
    if catalog.value("SELECT to_regclass('walrelay.slots')::text") and not schema_is_current(catalog):
        older.insert(0, "the tables of the schema walrelay are of an earlier version")
    if older:
        yield warning(subject, "; ".join(older), expected.walrelay("init"))
    for each in found:
        if each.note:
            yield ok(subject, f"function walrelay.{each.name} is left as it is: {each.note}")
    if not older and not any(each.note for each in found):
        yield ok(subject, "of these settings and this version, as far as it is there")
