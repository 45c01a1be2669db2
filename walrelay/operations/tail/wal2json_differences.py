"""What wal2json knows of a row and pgoutput does not send: the names of the types, and what is left out."""

from collections.abc import Iterator, Sequence

from walrelay.postgres.catalog import Catalog


def type_names(catalog: Catalog, types: Sequence[tuple[int, int, tuple[str, str] | None]]) -> list[str]:
    """For each (type OID, type modifier, schema and name then) the name as PostgreSQL writes it, such as `character
    varying(60)`; of a type that was called otherwise then, or is gone, as it would have been written then.
    """
    rows = catalog.rows(
        r"""
        SELECT CASE
            WHEN then_name IS NULL OR t.typtype = 'd' OR (t.typname, s.nspname) = (then_name, then_schema)
            THEN format_type(given.oid, modifier)
            ELSE CASE WHEN then_schema = ANY (current_schemas(true)) THEN '' ELSE quote_ident(then_schema) || '.' END
                || CASE WHEN coalesce(t.typcategory = 'A', then_name LIKE '\_%%')
                        THEN quote_ident(substr(then_name, 2)) || '[]' ELSE quote_ident(then_name) END
            END
        FROM unnest(%s::oid[], %s::int4[], %s::text[], %s::text[])
            WITH ORDINALITY AS given (oid, modifier, then_schema, then_name, n)
        LEFT JOIN pg_type t ON t.oid = given.oid LEFT JOIN pg_namespace s ON s.oid = t.typnamespace
        ORDER BY n
        """,
        [oid for oid, _, _ in types],
        [modifier for _, modifier, _ in types],
        [then and then[0] for _, _, then in types],
        [then and then[1] for _, _, then in types],
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
    filtered = catalog.value(
        """
        SELECT to_jsonb(p)->>'rowfilter' FROM pg_publication_tables p
        JOIN pg_namespace n ON nspname = schemaname JOIN pg_class c ON relname = tablename AND relnamespace = n.oid
        WHERE pubname = %s AND c.oid = to_regclass(%s)
        """,
        publication,
        table,
    )
    if filtered:
        yield f"pgoutput sends rows of {table} only where {filtered}; wal2json prints all of them"
