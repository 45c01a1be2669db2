"""What wal2json knows of a row and pgoutput does not send: the names of the types, and what is left out."""

from collections.abc import Iterator, Sequence

from walrelay.source.catalog import Catalog


def type_names(catalog: Catalog, columns: Sequence[tuple[int, int]]) -> list[str]:
    """For each (type OID, type modifier) the name as PostgreSQL writes it, such as `character varying(60)`."""
    rows = catalog.rows(
        "SELECT format_type(oid, modifier) FROM unnest(%s::oid[], %s::int4[]) WITH ORDINALITY AS t (oid, modifier, n)"
        " ORDER BY n",
        [oid for oid, _ in columns],
        [modifier for _, modifier in columns],
    )
    return [name for (name,) in rows]


def unlikenesses(catalog: Catalog, publication: str, table: str) -> Iterator[str]:
    """Why lines rendered from pgoutput cannot be those of the plugin for this table, as sentences."""
    if catalog.published(publication, table).partitioned:
        yield (
            f"{table} is partitioned: rows are printed under its name, where wal2json prints that of the partition"
            " (and its order of columns)"
        )
    left_out = catalog.value(
        """
        SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum)
        FROM pg_attribute a JOIN pg_class c ON c.oid = attrelid JOIN pg_namespace n ON n.oid = relnamespace
        LEFT JOIN pg_publication_tables p ON p.pubname = %s AND p.schemaname = nspname AND p.tablename = relname
        WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped
          AND (NOT coalesce(to_jsonb(p)->'attnames', to_jsonb(attname)) ? attname
               OR (attgenerated <> '' AND current_setting('server_version_num')::int < 180000))
        """,
        publication,
        table,
    )
    if left_out:
        yield f"pgoutput does not send {left_out} of {table}, which wal2json prints"
