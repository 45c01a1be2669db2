"""Whether the relay can mark published rows: `outbox.mark_published`."""

from collections.abc import Iterator

from walrelay.errors import Fatal
from walrelay.identifiers import identifier
from walrelay.model import Finding
from walrelay.operations.doctor.expected import Expected, ok, warning
from walrelay.operations.doctor.table import look
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.failures import Denied


def marks(catalog: Catalog, expected: Expected) -> Iterator[Finding]:
    """PostgreSQL explains the statements, without executing them. With sequential scans at a prohibitive cost it takes
    any index that suits.
    """
    if expected.marks is None or look(catalog, expected) is None:
        return
    table, condition = expected.outbox, expected.marks.where
    try:
        catalog.rows(f"EXPLAIN UPDATE {table} AS o SET {expected.marks.set} WHERE ({condition})")
        catalog.run("SET enable_seqscan = off")
        plan = catalog.rows(f"EXPLAIN SELECT FROM {table} AS o WHERE ({condition})")
        catalog.run("RESET enable_seqscan")
    except Denied:
        return  # `rights` tells
    except Fatal as error:
        fix = "outbox.mark_published: {where: published = false, set: published = true}   # in the settings"
        why = str(error.__cause__ or error).partition("\n")[0]
        yield warning("marks", f"published rows cannot be marked: {why}", fix)
        return
    if any("Seq Scan" in line for (line,) in plan):
        id_ = identifier(expected.columns["id"])
        fix = f"CREATE INDEX CONCURRENTLY ON {expected.outbox} ({id_}) WHERE {expected.marks.where};"
        yield warning("marks", "no index finds the rows without a mark: each look reads the whole table", fix)
        return
    yield ok("marks", "published rows can be marked")
