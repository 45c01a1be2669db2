"""Which records are dead letters, and what became of them."""

from collections.abc import Sequence
from typing import NamedTuple

from walrelay.dead_letters.session import TABLE
from walrelay.dead_letters.store import present
from walrelay.postgres.catalog import Catalog


class Aside(NamedTuple):
    """The letter of a record: why it is one, and whether it waits, is blocked, replayed, discarded or skipped."""

    record_id: str
    position: str
    status: str
    error: str
    topic: str | None


def letters_of(catalog: Catalog, slot: str, record_ids: Sequence[str]) -> dict[str, Aside]:
    """record id -> its letter, for those that have one."""
    if not record_ids or not present(catalog):
        return {}
    rows = catalog.rows(
        f"SELECT record_id, commit_lsn::text || ':' || ordinal, status, error, topic FROM {TABLE}"
        " WHERE slot_name = %s AND record_id = ANY (%s::text[]) ORDER BY commit_lsn, ordinal, number",
        slot,
        list(record_ids),
    )
    return {row[0]: Aside(*row) for row in rows}
