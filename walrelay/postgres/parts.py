"""The parts of the outbox: the table itself, or its partitions; and since which transaction each is published.

The number of the transaction that wrote a row (xmin) says whether the row is published, as long as two things hold:
the row was written into the outbox while it was published, and xmin is that of the transaction that inserted it. A
partition that is filled first and attached then breaks the one; whatever rewrites a table (ALTER TABLE, pg_repack)
breaks the other, because it gives old rows its own number. So `walrelay init` notes of each part how it was attached
and in which file it lies.

Neither matters for what has never had other rows: a part whose rows were all published before may be rewritten. A
partition that was made after the note has never had other rows if it was made as a partition: the catalog's rows of
the table and of its place in the tree are of one transaction, and either its columns are of the same command as the
table (CREATE TABLE ... PARTITION OF; ATTACH writes them again), or walrelay made it, as its comment says.

PostgreSQL 14 decides once in a stream whether rows of a table are published, at the first row that it meets there. So
it skips events in a partition that had rows before it was attached for as long as that stream goes on (and still sends
rows of a partition that was detached). Afterwards it cannot be found out which: of such a part nothing is known.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from walrelay.identifiers import identifier
from walrelay.postgres.catalog import Catalog


class Part(NamedTuple):
    """A table that holds rows: its quoted name, the file it lies in, and how it is attached: a stamp of its place in
    the tree and of each table above it; empty where it is no partition.

    `born`: it was made as a partition. `original`: it lies in the file it was made with. `logged`: its rows are in the
    WAL. `passed_over`: the server may not publish them.
    """

    oid: int
    name: str
    file: int
    attached: str
    born: bool
    original: bool
    logged: bool
    passed_over: bool = False

    @property
    def is_this(self) -> str:
        """A condition over a row `o`, in a statement that has locked the table: table and file are still the same."""
        return f"o.tableoid = {self.oid} AND (SELECT pg_catalog.pg_relation_filenode({self.oid})) = {self.file}"


class PublishedSince(NamedTuple):
    """Rows of transactions from `number` on are published, if they were written at `time` or later (empty: whenever).
    0: all rows are.
    """

    number: int
    time: str = ""


class NotedPart(NamedTuple):
    file: int
    attached: str
    since: PublishedSince


class NothingKnown(NamedTuple):
    """It is not known of any row of a part whether it is published; `why`, for people."""

    why: str


ALL = PublishedSince(0)

_SHOWN = 3  # names

# Rows of a table that inherits have that table's name in the WAL, and are not the outbox's in any publication. A
# relation without pages has no row, which is known without a right to read it.
_INHERITING = """
    WITH RECURSIVE below (oid) AS (
        SELECT to_regclass(%s)::oid UNION SELECT inhrelid FROM below JOIN pg_inherits ON inhparent = oid
    )
    SELECT format('%%I.%%I', n.nspname, c.relname), pg_relation_size(c.oid) > 0
    FROM below JOIN pg_class c USING (oid) JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.oid <> to_regclass(%s)::oid AND NOT c.relispartition ORDER BY 1
"""

_PARTS = """
    WITH outbox AS (SELECT to_regclass(%s)::oid AS root),
    held AS (
        SELECT root AS oid FROM outbox UNION SELECT relid FROM outbox, pg_partition_tree(root)
    )
    SELECT c.oid::int8, format('%%I.%%I', n.nspname, c.relname), pg_relation_filenode(c.oid)::int8, up.attached,
           up.born, pg_relation_filenode(c.oid) = c.oid, c.relpersistence = 'p'
    FROM held JOIN pg_class c ON c.oid = held.oid JOIN pg_namespace n ON n.oid = c.relnamespace,
    LATERAL (
        SELECT coalesce(string_agg(i.xmin::text, ',' ORDER BY a.level), '') AS attached,
               coalesce(bool_and(s.xmin = i.xmin AND (
                   coalesce(obj_description(a.relid, 'pg_class'), '') LIKE 'walrelay: events of %%'
                   OR EXISTS (SELECT FROM pg_attribute u WHERE u.attrelid = a.relid AND u.attnum > 0
                              AND u.xmin = s.xmin AND u.cmin = s.cmin))), false) AS born
        FROM pg_partition_ancestors(c.oid) WITH ORDINALITY AS a(relid, level)
        JOIN pg_inherits i ON i.inhrelid = a.relid
        JOIN pg_attribute s ON s.attrelid = a.relid AND s.attname = 'tableoid'
    ) AS up
    WHERE c.relkind = 'r' ORDER BY 2
"""


def parts(catalog: Catalog, table: str) -> list[Part]:
    """The parts of the outbox as they are now; none where there is no such table."""
    found = [Part(*row) for row in catalog.rows(_PARTS, table)]
    decides_once = catalog.server_version < 150000
    return [each._replace(passed_over=decides_once and bool(each.attached) and not each.born) for each in found]


def incompletely_published(catalog: Catalog, table: str) -> str:
    """The parts of which the server may not publish every event, and why, for people; empty if there are none."""
    if catalog.server_version >= 150000:
        return ""
    return _passed_over([each.name for each in parts(catalog, table) if each.passed_over])


def _passed_over(names: list[str]) -> str:
    why = "PostgreSQL 14 may skip events in"
    match len(names):
        case 0:
            return ""
        case 1:
            return f"{names[0]} was attached as a partition: {why} it, if it had rows before"
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{', '.join(names[:_SHOWN])}{more} were attached as partitions: {why} those that had rows before"


class Inheriting(NamedTuple):
    """A table that inherits from the outbox, by its quoted name."""

    name: str
    has_rows: bool  # or had some since its file was made


def inheriting(catalog: Catalog, table: str) -> list[Inheriting]:
    """Tables whose rows a query of the outbox shows, and no slot delivers. Partitions are none of them."""
    return [Inheriting(*row) for row in catalog.rows(_INHERITING, table, table)]


def not_delivered(catalog: Catalog, table: str) -> str:
    """Rows of which a running relay hears nothing, for people; empty if there are none."""
    names = ", ".join(each.name for each in inheriting(catalog, table) if each.has_rows)
    return names and f"{names} inherits from {table}, and has rows: they are no events"


def unaltered(catalog: Catalog, table: str) -> tuple[str, list[Any]]:
    """SQL, a condition and its parameters: the name is that of the table of now, which is no partition, and was neither
    attached, renamed nor rewritten since.
    """
    query = "SELECT oid::int8, xmin::text::int8 FROM pg_class WHERE oid = to_regclass(%s)"
    ((oid, version),) = catalog.rows(query, table) or [(0, 0)]
    here = "oid = to_regclass(%s) AND oid = %s::int8 AND xmin::text::int8 = %s AND NOT relispartition"
    return f"EXISTS (SELECT FROM pg_class WHERE {here})", [table, oid, version]


def part(catalog: Catalog, table: str) -> Part | None:
    """One table by its quoted name, even if it is no part of the outbox."""
    return next((each for each in parts(catalog, table) if not each.attached), None)


def published_since(
    part: Part, published_from: int, noted: Mapping[int, NotedPart] | None
) -> PublishedSince | NothingKnown:
    """From when on all rows of the part are published. `noted` None: an earlier version wrote walrelay.slots."""
    if not part.logged:
        return NothingKnown(f"{part.name} is unlogged: its rows are not in the WAL")
    if part.passed_over:
        return NothingKnown(_passed_over([part.name]))
    rewritten = NothingKnown(f"{part.name} was rewritten (ALTER TABLE, TRUNCATE, VACUUM FULL, CLUSTER or pg_repack)")
    earlier = (noted or {}).get(part.oid)
    if earlier is not None and earlier.attached == part.attached:
        since = earlier.since if published_from else ALL
        return rewritten if since.number and earlier.file != part.file else since
    if earlier is None and (part.born or not part.attached):
        return ALL if not published_from else PublishedSince(published_from) if part.original else rewritten
    return NothingKnown(f"{part.name} was attached as a partition: it may hold rows that were never in the outbox")


def parts_from_json(document: dict[str, Any] | None) -> dict[int, NotedPart] | None:
    if document is None:
        return None
    return {
        int(oid): NotedPart(each["file"], each["attached"], PublishedSince(each["from"], each["since"]))
        for oid, each in document.items()
    }


def parts_as_json(noted: Mapping[int, NotedPart]) -> dict[str, Any]:
    return {
        str(oid): {"file": each.file, "attached": each.attached, "from": each.since.number, "since": each.since.time}
        for oid, each in noted.items()
    }


def managed_by_partman(catalog: Catalog, table: str) -> bool:
    """Whether pg_partman makes and drops the table's partitions; `table` is quoted where it must be. pg_partman has
    names without quotes, and may be in any schema.
    """
    schema = catalog.value(
        "SELECT nspname::text FROM pg_extension e JOIN pg_namespace n ON n.oid = extnamespace"
        " WHERE extname = 'pg_partman'"
    )
    if schema is None:
        return False
    name = catalog.value(
        "SELECT nspname || '.' || relname FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace"
        " WHERE c.oid = to_regclass(%s)",
        table,
    )
    query = f"SELECT 1 FROM {identifier(schema).replace('%', '%%')}.part_config WHERE parent_table = %s"
    return catalog.value(query, name) is not None
