"""The table walrelay.slots: which outbox a slot is for, when and where it was made, and from when on all of that is
published.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import psycopg

from walrelay.errors import WalrelayError
from walrelay.postgres.allowed import of_record, recorded, refuse
from walrelay.postgres.catalog import Catalog, Seen
from walrelay.postgres.parts import ALL, Noted, Part, Since, Unknown, known, parts, read, written


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


def schema_is_current(catalog: Catalog) -> bool:
    """With the columns and tables that it did not have at first."""
    query = "SELECT count(*) FROM pg_attribute WHERE attrelid = to_regclass('walrelay.slots') AND attname = ANY (%s)"
    columns = ["publication_stamp", "created_xmin", "backfill", "published_from", "parts"]
    complete = catalog.value(query, columns) == len(columns)
    return complete and catalog.value("SELECT to_regclass('walrelay.positions')") is not None


def beginning(catalog: Catalog, slot: str, system_identifier: str) -> int:
    """The xid8 below which all transactions had ended when the slot was made; 0 where that is not known."""
    xmin = noted(catalog, slot, "created_xmin")
    return int(xmin) if xmin and noted(catalog, slot, "system_identifier") == system_identifier else 0


def noted(catalog: Catalog, slot: str, column: str) -> str | None:
    """A column of the slot's row in walrelay.slots; None without such a row, column or table."""
    if catalog.value("SELECT to_regclass('walrelay.slots')") is None:
        return None
    value: str | None = catalog.value(
        "SELECT to_jsonb(s)->>%s FROM walrelay.slots s WHERE slot_name = %s", column, slot
    )
    return value


class Note(NamedTuple):
    """`lost`: why rows that were known to be published are not any more, for people."""

    seen: Seen
    parts: Mapping[int, Noted]
    lost: list[str]

    @property
    def published_from(self) -> int:
        """From when on all parts are published."""
        return max((each.since.number for each in self.parts.values()), default=0)

    @property
    def document(self) -> str:
        """The parts, for walrelay.slots."""
        return json.dumps(written(self.parts))


def remember(catalog: Catalog, slot: str, table: str, seen: Seen, xmin: int | None, *, mended: bool) -> list[str]:
    """`xmin`: of a snapshot from before the slot, where there is one. `mended`: the outbox may not have been published
    until now. Returns `Note.lost`. Nothing is written where there is no such slot.
    """
    record, found = _of_this_system(catalog, slot, table), parts(catalog, table)
    ((next_number, now),) = catalog.rows(
        "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::int8, to_json(clock_timestamp())#>>'{}'"
    )

    def otherwise(part: Part) -> Since:
        # Empty: then all that comes is published, since the slot is there by now, and what was attached or rewritten
        # holds no row of before. Otherwise so is what transactions write that take their numbers from now on; one that
        # was under way when the slot was made may have ended before or after, and one that was when the outbox came
        # back into the publication is not sent.
        certain = xmin is not None or not (mended or _differs(record, seen))
        return ALL if certain and _is_empty(catalog, part) else Since(next_number, now)

    note = _note(record, seen, found, otherwise, mended=mended)
    catalog.run(
        "INSERT INTO walrelay.slots AS s (slot_name, plugin, created_lsn, system_identifier, table_oid, entry_oid,"
        " publication_stamp, created_xmin, published_from, parts)"
        " SELECT slot_name, plugin, confirmed_flush_lsn, (SELECT system_identifier::text FROM pg_control_system()),"
        " %s, %s, %s, %s::int8, %s::int8, %s::jsonb FROM pg_replication_slots WHERE slot_name = %s"
        " ON CONFLICT (slot_name) DO UPDATE SET (system_identifier, table_oid, entry_oid, publication_stamp,"
        " published_from, parts) = (excluded.system_identifier, excluded.table_oid, excluded.entry_oid,"
        " excluded.publication_stamp, excluded.published_from, excluded.parts)",
        *(*seen, xmin, note.published_from, note.document, slot),
    )
    return note.lost


def before_a_backfill(catalog: Catalog, slot: str, table: str, publication: str | None) -> Callable[[int], Note]:
    """What the outbox is before the slot is made; to be called with the xmax of the slot's snapshot: what later
    transactions write is in the stream, and of those parts that nothing was known of that is all that is.
    """
    record, seen = _of_this_system(catalog, slot, table), catalog.published(publication or "", table).seen
    found = parts(catalog, table)
    now = catalog.value("SELECT to_json(clock_timestamp())#>>'{}'")
    return lambda xmax: _note(record, seen, found, lambda part: Since(xmax, now), mended=False)


def forget(catalog: Catalog, slot: str) -> None:
    """Nothing is known to be published any more, until init takes note. Fatal where that cannot be written down."""
    if recorded(catalog):
        refuse(catalog, of_record(catalog, "UPDATE", column="published_from"), "note that events may be passed over")
        catalog.run("UPDATE walrelay.slots SET published_from = NULL WHERE slot_name = %s", slot)


def _note(
    record: Record | None, seen: Seen, found: list[Part], otherwise: Callable[[Part], Since], *, mended: bool
) -> Note:
    """The parts as they are, each with what was known of it, if that is still so, `otherwise` with what is from now."""
    noted, lost = dict[int, Noted](), list[str]()
    differs = mended or _differs(record, seen)
    if record is not None and differs:
        lost.append("the outbox was not published in one and the same way since `walrelay init` looked last")
    for part in found:
        since = known(part, record.published_from or 0, record.parts) if record and not differs else None
        if since is None or isinstance(since, Unknown):
            after = otherwise(part)
            lost += [since.why] if since and after.number else []
            since = after
        noted[part.oid] = Noted(part.file, part.attached, since)
    return Note(seen, noted, lost)


def _differs(record: Record | None, seen: Seen) -> bool:
    """Whether the outbox, or the publication, is another than was noted, or was altered since."""
    return record is not None and record.seen is not None and not record.seen.same(seen)


def _of_this_system(catalog: Catalog, slot: str, table: str) -> Record | None:
    """What is known of the slot; None where that is nothing."""
    record = records(catalog, slot, table).get(slot)
    return record if record and record.of_this_system and record.published_from is not None else None


def _is_empty(catalog: Catalog, part: Part) -> bool:
    try:
        with catalog.connection.transaction():
            catalog.connection.execute("SET LOCAL row_security = off")  # or a policy would make it look empty
            return not catalog.value(f"SELECT EXISTS (SELECT FROM ONLY {part.name})")
    except (psycopg.Error, WalrelayError):
        return False  # not known
