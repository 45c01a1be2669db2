"""Whether pg_partman makes and drops the partitions of a table."""

from walrelay.identifiers import identifier
from walrelay.postgres.catalog import Catalog


def managed(catalog: Catalog, table: str) -> bool:
    """`table` quoted where it must be; pg_partman has the names without quotes, in whatever schema it was put."""
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
