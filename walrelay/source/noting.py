"""What init writes down of a slot in walrelay.slots: which outbox it saw, and from when on all of it is published."""

import psycopg

from walrelay.errors import WalrelayError
from walrelay.source.catalog import Catalog, Seen


def remember(catalog: Catalog, slot: str, table: str, seen: Seen, xmin: int | None, *, mended: bool) -> None:
    """`xmin`: of a snapshot from before the slot, where there is one. `mended`: the outbox may not have been published
    until now.
    """
    noted = "(system_identifier, table_oid, entry_oid, publication_stamp)"
    excluded = "(excluded.system_identifier, excluded.table_oid, excluded.entry_oid, excluded.publication_stamp)"
    entry = "(s.table_oid, s.entry_oid) IS NOT DISTINCT FROM (excluded.table_oid, excluded.entry_oid)"
    next_number = int(catalog.value("SELECT pg_snapshot_xmax(pg_current_snapshot())::text::int8"))
    at_first = 0 if (xmin is not None or not mended) and _is_empty(catalog, table) else next_number
    same = f"s.system_identifier = excluded.system_identifier AND (s.table_oid IS NULL OR {entry})"
    catalog.connection.execute(
        "INSERT INTO walrelay.slots AS s (slot_name, plugin, created_lsn, system_identifier, table_oid, entry_oid,"
        " publication_stamp, created_xmin, published_from)"
        " SELECT slot_name, plugin, confirmed_flush_lsn, (SELECT system_identifier::text FROM pg_control_system()),"
        " %s, %s, %s, %s::int8, %s::int8 FROM pg_replication_slots WHERE slot_name = %s"
        f" ON CONFLICT (slot_name) DO UPDATE SET {noted} = {excluded},"
        f" published_from = CASE WHEN {same} AND NOT %s THEN coalesce(s.published_from, excluded.published_from)"
        " ELSE %s END"
        " WHERE (s.system_identifier, s.table_oid, s.entry_oid, s.publication_stamp)"
        f" IS DISTINCT FROM {excluded} OR s.published_from IS NULL".encode(),
        (*seen, xmin, at_first, slot, mended, next_number),
    )


def _is_empty(catalog: Catalog, table: str) -> bool:
    """Then all that comes is published: the slot is there by now. Otherwise so is what transactions write that take
    their numbers from now on; one that was under way when the slot was made may have ended before or after, and one
    that was when the outbox came back into the publication is not sent.
    """
    try:
        with catalog.connection.transaction():
            catalog.connection.execute("SET LOCAL row_security = off")  # or a policy would make it look empty
            return not catalog.value(f"SELECT EXISTS (SELECT FROM {table})")
    except (psycopg.Error, WalrelayError):
        return False  # not known
