"""The row of walrelay.slots for a slot, as far as it says what is published."""

from typing import Any, NamedTuple

from walrelay.source.catalog import Catalog, Seen
from walrelay.source.parts import Noted, read


class Record(NamedTuple):
    """What `walrelay init` noted last. `seen` None: it did not look at the outbox. `published_from` None: from when on
    rows are published is not known. `parts` None: an earlier version wrote it. `row`: all of it, to compare.
    """

    slot: str
    of_this_system: bool
    seen: Seen | None
    published_from: int | None
    parts: dict[int, Noted] | None
    made_at: str
    row: dict[str, Any]


def records(catalog: Catalog, slot: str, table: str) -> dict[str, Record]:
    """Those of the slot, and of every other that may be this outbox's: one whose table is not known, or is gone,
    counts. By the slots' names.
    """
    if catalog.value("SELECT to_regclass('walrelay.slots')") is None:
        return {}
    rows = catalog.rows(
        "SELECT to_jsonb(s), s.system_identifier = c.system_identifier::text"
        " FROM walrelay.slots s, pg_control_system() c,"
        " LATERAL (SELECT (to_jsonb(s)->>'table_oid')::int8 AS oid) AS noted"
        " WHERE slot_name = %s OR (s.system_identifier = c.system_identifier::text AND (noted.oid IS NULL"
        " OR noted.oid = to_regclass(%s)::oid::int8"
        " OR NOT EXISTS (SELECT FROM pg_class WHERE pg_class.oid::int8 = noted.oid))) ORDER BY slot_name",
        slot,
        table,
    )
    return {row["slot_name"]: _record(row, here) for row, here in rows}


def _record(row: dict[str, Any], here: bool) -> Record:
    table, entry, stamp = (row.get(name) for name in ("table_oid", "entry_oid", "publication_stamp"))
    return Record(
        slot=row["slot_name"],
        of_this_system=here,
        seen=Seen(table, entry, stamp or "") if table else None,
        published_from=row.get("published_from"),
        parts=read(row.get("parts")),
        made_at=row["created_at"],
        row=row,
    )
