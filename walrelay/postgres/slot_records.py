"""The table walrelay.slots, and all SQL on it: which outbox a slot is for, when and where it was made, from when on all
of that is published, and how far a backfill got (docs/decisions/0004).
"""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from walrelay.errors import Fatal
from walrelay.lsn import LSN
from walrelay.model import System
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.failures import Denied, slot_missing
from walrelay.postgres.parts import NotedPart, parts_as_json, parts_from_json
from walrelay.postgres.publications import PublicationState
from walrelay.postgres.rights import OWN, MissingRight, Right, missing_rights
from walrelay.postgres.role_checks import refuse_missing_rights

_TABLE = "FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname = %s AND relname = %s"
_HERE = "(SELECT system_identifier::text FROM pg_control_system())"
MADE_HERE = f"EXISTS (SELECT FROM walrelay.slots s WHERE s.slot_name = r.slot_name AND s.system_identifier = {_HERE})"
"""SQL: a condition on rows `r` of walrelay.relays. A dump that was restored has records of other slots."""
OUTBOX_OF_SLOT = "(SELECT (to_jsonb(s)->>'table_oid')::int8 FROM walrelay.slots s WHERE s.slot_name = {})"
"""SQL: the OID of the table that a slot was made for; NULL where it is not noted."""
_NOT_FOREIGN = (
    "NOT EXISTS (SELECT FROM pg_replication_slots f WHERE f.slot_name = s.slot_name"
    " AND f.database IS DISTINCT FROM current_database())"
)
"""SQL: a condition on rows `s` of walrelay.slots. A copied database has the records of the original's slots."""

_OF_OUTBOX = (
    "FROM walrelay.slots s, pg_control_system() c, LATERAL (SELECT (to_jsonb(s)->>'table_oid')::int8 AS oid) AS noted"
    " WHERE slot_name = %s OR (s.system_identifier = c.system_identifier::text"
    f" AND {_NOT_FOREIGN} AND (noted.oid IS NULL OR noted.oid = to_regclass(%s)::oid::int8"
    " OR NOT EXISTS (SELECT FROM pg_class WHERE pg_class.oid::int8 = noted.oid)))"
)


def slots_table_exists(catalog: Catalog) -> bool:
    """Also true if the role may not use the table."""
    return bool(catalog.value(f"SELECT 1 {_TABLE}", OWN, "slots"))


def missing_rights_on_slots(catalog: Catalog, *privileges: str, column: str | None = None) -> list[MissingRight]:
    """What the role lacks of these rights on the table, or on one column of it, and of the right to read it."""
    if not slots_table_exists(catalog):
        return []
    of_reading = [Right("USAGE", OWN), Right("SELECT", OWN, "slots")]
    return missing_rights(
        catalog.connection, [*of_reading, *(Right(each, OWN, "slots", column) for each in privileges)]
    )


def is_readable(catalog: Catalog) -> bool:
    """Whether the table exists and the role may read it."""
    may = "coalesce(has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT'), false)"
    return bool(catalog.value(f"SELECT {may} {_TABLE}", OWN, "slots"))


def schema_is_current(catalog: Catalog) -> bool:
    """Whether the schema has the columns and tables that later versions added."""
    columns = ("publication_stamp", "created_xmin", "backfill", "published_from", "parts")
    return _has(catalog, *columns) and catalog.value("SELECT to_regclass('walrelay.positions')") is not None


def _has(catalog: Catalog, *columns: str) -> bool:
    query = "SELECT count(*) FROM pg_attribute WHERE attrelid = to_regclass('walrelay.slots') AND attname = ANY (%s)"
    return bool(catalog.value(query, [*columns]) == len(columns))


class SlotRecord(NamedTuple):
    """What `walrelay init` noted last. `seen` None: it did not look at the outbox. `published_from` None: from when on
    rows are published is not known. `parts` None: an earlier version wrote it. `row`: all of it, to compare.
    """

    slot: str
    of_this_system: bool
    seen: PublicationState | None
    published_from: int | None
    parts: dict[int, NotedPart] | None
    made_at: str
    row: dict[str, Any]


def slot_records(catalog: Catalog, slot: str, table: str) -> dict[str, SlotRecord]:
    """By slot: the record of the slot, and of every other slot that may be for this outbox; one whose table is not
    known, or is gone, counts. One whose slot belongs to another database does not: it came along with a copy.
    """
    if not slots_table_exists(catalog):
        return {}
    query = f"SELECT to_jsonb(s), s.system_identifier = c.system_identifier::text {_OF_OUTBOX} ORDER BY slot_name"
    return {row["slot_name"]: _record(row, here) for row, here in catalog.rows(query, slot, table)}


def records_unchanged(slot: str, table: str, records: Mapping[str, SlotRecord]) -> tuple[str, list[str]]:
    """SQL, a condition and its parameters: `slot_records` are still these, to the statement that acts on them. The time
    zone of the session is that in which they were read.
    """
    noted = json.dumps([record.row for record in records.values()])
    return f"(SELECT jsonb_agg(to_jsonb(s) ORDER BY slot_name) {_OF_OUTBOX}) = %s::jsonb", [slot, table, noted]


def _record(row: dict[str, Any], here: bool) -> SlotRecord:
    parts = parts_from_json(row.get("parts"))
    return SlotRecord(row["slot_name"], here, _seen(row), row.get("published_from"), parts, row["created_at"], row)


def first_xmin(catalog: Catalog, slot: str, system_identifier: str) -> int:
    """The xid8 below which all transactions had ended when the slot was made; 0 if that is not known."""
    xmin = recorded_value(catalog, slot, "created_xmin")
    return int(xmin) if xmin and recorded_value(catalog, slot, "system_identifier") == system_identifier else 0


def recorded_value(catalog: Catalog, slot: str, column: str) -> str | None:
    """A column of the slot's row; None without such a row, column or table."""
    if not slots_table_exists(catalog):
        return None
    query = "SELECT to_jsonb(s)->>%s FROM walrelay.slots s WHERE slot_name = %s"
    value: str | None = catalog.value(query, column, slot)
    return value


class SlotOrigin(NamedTuple):
    at: datetime
    system_identifier: str

    def __str__(self) -> str:
        return f"it was made at {self.at:%Y-%m-%d %H:%M} and is gone"


def slot_origin(catalog: Catalog, slot: str) -> SlotOrigin | None:
    """When and where init made a slot of that name; None if it did not, or if the role may not read it."""
    rows = _visible(catalog, "SELECT created_at, system_identifier FROM walrelay.slots WHERE slot_name = %s", slot)
    return SlotOrigin(*rows[0]) if rows else None


def missing_slot(catalog: Catalog, slot: str, last: System | None = None) -> Fatal:
    """Why a slot may be missing, as far as this server knows; `last`: where this process read it before.

    A promoted standby is the same system on a later timeline, and has no slot that was not synchronised.
    """
    here, record = catalog.system(), slot_origin(catalog, slot)
    error = slot_missing(slot, made=record is not None)
    parts = [f"{error} on this server (system {here.identifier}, timeline {here.timeline})"]
    if record is not None:
        parts.append(str(record))
    if last is not None and last.identifier == here.identifier and last.timeline != here.timeline:
        parts.append(
            f"this relay read it on timeline {last.timeline}: the standby that was promoted did not have the slot"
        )
    elif (known := last.identifier if last else record and record.system_identifier) not in (None, here.identifier):
        parts.append(f"it was one of system {known}: this is another cluster")
    return Fatal("; ".join(parts), hint=error.hint, page="slot-lost")


def noted_publication(catalog: Catalog, slot: str) -> PublicationState | None:
    """What `walrelay init` saw of the outbox last; None if it never looked, or on another system, or if the role may
    not read it.
    """
    query = f"SELECT to_jsonb(s) FROM walrelay.slots s WHERE slot_name = %s AND system_identifier = {_HERE}"
    return _seen(rows[0][0]) if (rows := _visible(catalog, query, slot)) else None


def _seen(row: dict[str, Any]) -> PublicationState | None:
    table, entry, stamp = (row.get(name) for name in ("table_oid", "entry_oid", "publication_stamp"))
    return PublicationState(table, entry, stamp or "") if table else None


def _visible(catalog: Catalog, query: str, *parameters: Any) -> list[tuple[Any, ...]]:
    """No rows where there is no such table, or where the role may not read it."""
    try:
        return catalog.rows(query, *parameters) if slots_table_exists(catalog) else []
    except Denied:
        return []


def publisher(catalog: Catalog, table: str, *, but: str) -> str | None:
    """Another slot that was made for that outbox; None if there is none, or the role may not read it."""
    if not (_has(catalog, "table_oid") and catalog.value("SELECT has_table_privilege('walrelay.slots', 'SELECT')")):
        return None
    query = (
        "SELECT min(slot_name) FROM walrelay.slots s WHERE table_oid = to_regclass(%s)::oid::int8 AND slot_name <> %s"
        f" AND {_NOT_FOREIGN}"
    )
    found: str | None = catalog.value(query, table, but)
    return found


def publisher_of_entry(catalog: Catalog, entry: int, *, but: str) -> str | None:
    """Another slot that is there, and whose relay reads the same entry of a publication."""
    query = (
        "SELECT min(s.slot_name) FROM walrelay.slots s JOIN pg_replication_slots p USING (slot_name)"
        f" WHERE s.entry_oid = %s AND s.slot_name <> %s AND s.system_identifier = {_HERE}"
        " AND p.database = current_database()"
    )
    rows = _visible(catalog, query, entry, but)
    return rows[0][0] if rows else None


class PublicationNote(NamedTuple):
    """`lost`: why rows that were known to be published no longer are, for people."""

    seen: PublicationState
    parts: Mapping[int, NotedPart]
    lost: list[str]

    @property
    def published_from(self) -> int:
        """From when on all parts are published."""
        return max((each.since.number for each in self.parts.values()), default=0)

    @property
    def document(self) -> str:
        return json.dumps(parts_as_json(self.parts))


def is_of_another_system(catalog: Catalog, slot: str) -> bool:
    """Whether the slot's record is one from before pg_upgrade, or of a dump that was restored here."""
    query = f"SELECT 1 FROM walrelay.slots WHERE slot_name = %s AND system_identifier <> {_HERE}"
    return catalog.value(query, slot) is not None


def write_note(catalog: Catalog, slot: str, note: PublicationNote, xmin: int | None) -> None:
    """Writes the slot's record; nothing where there is no slot. `xmin`: of a snapshot from before it, if known."""
    catalog.run(
        "INSERT INTO walrelay.slots AS s (slot_name, plugin, created_lsn, system_identifier, table_oid, entry_oid,"
        " publication_stamp, created_xmin, published_from, parts)"
        " SELECT slot_name, plugin, confirmed_flush_lsn, (SELECT system_identifier::text FROM pg_control_system()),"
        " %s, %s, %s, %s::int8, %s::int8, %s::jsonb FROM pg_replication_slots"
        " WHERE slot_name = %s AND database = current_database()"
        " ON CONFLICT (slot_name) DO UPDATE SET (system_identifier, table_oid, entry_oid, publication_stamp,"
        " published_from, parts) = (excluded.system_identifier, excluded.table_oid, excluded.entry_oid,"
        " excluded.publication_stamp, excluded.published_from, excluded.parts)",
        *(*note.seen, xmin, note.published_from, note.document, slot),
    )


def forget_published(catalog: Catalog, slot: str) -> None:
    """From now on no row is known to be published, until init notes it again. Fatal if that cannot be written."""
    if slots_table_exists(catalog):
        refuse_missing_rights(
            catalog,
            missing_rights_on_slots(catalog, "UPDATE", column="published_from"),
            "note that events may be skipped",
        )
        catalog.run("UPDATE walrelay.slots SET published_from = NULL WHERE slot_name = %s", slot)


def declare_all_published(slot: str) -> str:
    """The SQL by which an operator declares every row of the outbox published."""
    return f"UPDATE walrelay.slots SET published_from = 0 WHERE slot_name = '{slot}';"


def delete_record(catalog: Catalog, slot: str) -> None:
    if slots_table_exists(catalog):
        catalog.run("DELETE FROM walrelay.slots WHERE slot_name = %s", slot)


def unfinished_backfill(catalog: Catalog, slot: str) -> tuple[dict[str, Any], bool] | None:
    """The progress of a backfill that did not finish, and whether it was on this system."""
    of_slot = "walrelay.slots WHERE slot_name = %s AND backfill IS NOT NULL"
    query = f"SELECT backfill, system_identifier = {_HERE} FROM {of_slot}"
    rows = catalog.rows(query, slot) if _has(catalog, "backfill") else []
    return (rows[0][0], rows[0][1]) if rows else None


def backfilled_rows(catalog: Catalog) -> dict[str, int | None]:
    """How many rows each unfinished backfill has published, by slot; empty where this role may not read that."""
    if not is_readable(catalog):
        return {}
    unfinished = (
        "SELECT slot_name::text, (backfill ->> 'published')::int8 FROM walrelay.slots WHERE backfill IS NOT NULL"
    )
    return dict(catalog.rows(unfinished)) if _has(catalog, "backfill") else {}


def begin_backfill(catalog: Catalog, slot: str, plugin: str, progress: str) -> None:
    """To be called before the slot is touched."""
    catalog.run(
        "INSERT INTO walrelay.slots AS s (slot_name, plugin, system_identifier, created_lsn, backfill)"
        " SELECT %s, %s, system_identifier::text, pg_current_wal_lsn(), %s::jsonb FROM pg_control_system()"
        " ON CONFLICT (slot_name) DO UPDATE SET plugin = excluded.plugin, backfill = excluded.backfill,"
        " created_xmin = CASE WHEN s.system_identifier = excluded.system_identifier THEN s.created_xmin END,"
        " published_from = CASE WHEN s.system_identifier = excluded.system_identifier THEN s.published_from END,"
        " system_identifier = excluded.system_identifier",
        *(slot, plugin, progress),
    )


def store_backfill_slot(catalog: Catalog, slot: str, point: LSN, note: PublicationNote) -> None:
    """To be called when the slot is there; its stream begins at `point`."""
    catalog.run(
        "UPDATE walrelay.slots SET created_lsn = %s::pg_lsn, created_at = now(), table_oid = %s, entry_oid = %s,"
        " publication_stamp = %s, published_from = %s, parts = %s::jsonb WHERE slot_name = %s",
        *(str(point), *note.seen, note.published_from, note.document, slot),
    )


def store_backfill(catalog: Catalog, slot: str, point: LSN, progress: str) -> bool:
    """False if the record is no longer that of the slot made at `point`."""
    query = "UPDATE walrelay.slots SET backfill = %s::jsonb WHERE slot_name = %s AND created_lsn = %s::pg_lsn"
    return catalog.run(query, progress, slot, str(point)) == 1


def end_backfill(catalog: Catalog, slot: str, point: LSN, xmin: int, *, everything: bool) -> bool:
    """`everything`: all rows of the table are published. False: see `store_backfill`."""
    query = (
        "UPDATE walrelay.slots SET backfill = NULL, created_xmin = %s,"
        " published_from = CASE WHEN %s THEN 0 ELSE published_from END"
        " WHERE slot_name = %s AND created_lsn = %s::pg_lsn"
    )
    return catalog.run(query, xmin, everything, slot, str(point)) == 1
