"""The dead letters of records that are known by their ids: for what asks about rows of the table."""

from collections.abc import Sequence
from typing import NamedTuple

from walrelay.dead_letter import record_from
from walrelay.dead_letters.identity import stored_id
from walrelay.dead_letters.store import TABLE, edits_are_kept, present
from walrelay.model import OutboxRecord
from walrelay.postgres.catalog import Catalog


class DeadLetterOfRecord(NamedTuple):
    """A dead letter without what is of the event itself, but for type, aggregate and key: `letters_of_messages` says
    which message it is about. `status`: waiting, blocked, replayed, discarded or skipped. `topic`: None for a letter of
    the whole record. `committed_at`: of the record, in microseconds since 1970.
    """

    record_id: str
    position: str
    status: str
    error: str
    topic: str | None
    letter: int = 0
    aggregate_type: str | None = None
    aggregate_id: str | None = None
    type: str | None = None
    committed_at: int | None = None
    key: bytes | None = None
    number: int = 0
    edited: bool = False


def dead_letters_of(catalog: Catalog, slot: str, record_ids: Sequence[str]) -> dict[str, list[DeadLetterOfRecord]]:
    """By record id, each in their order; records without a dead letter are left out."""
    if not record_ids or not present(catalog):
        return {}
    asked = {stored_id(record_id): record_id for record_id in record_ids}
    edited = "edited_record IS NOT NULL" if edits_are_kept(catalog) else "false"
    rows = catalog.rows(
        "SELECT record_id, commit_lsn::text || ':' || ordinal, status, error, topic, id, record->>'aggregate_type',"
        f" record->>'aggregate_id', record->>'type', (record->>'committed_at')::int8, key, number,"
        f" {edited} FROM {TABLE}"
        " WHERE slot_name = %s AND record_id = ANY (%s::text[]) ORDER BY commit_lsn, ordinal, number",
        slot,
        [*asked],
    )
    found: dict[str, list[DeadLetterOfRecord]] = {}
    for stored, *head, key, number, is_edited in rows:
        of_key = None if key is None else bytes(key)
        letter = DeadLetterOfRecord._make((asked[stored], *head, of_key, number, is_edited))
        found.setdefault(letter.record_id, []).append(letter)
    return found


def edited_record(catalog: Catalog, letter: int) -> OutboxRecord | None:
    """What a replay published instead of the record of that dead letter."""
    edited = catalog.value(f"SELECT edited_record FROM {TABLE} WHERE id = %s", letter)
    return record_from(edited) if edited else None
