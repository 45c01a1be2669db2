"""From when on the outbox is published, part by part: what `walrelay init` or a backfill notes of it beside a slot."""

from collections.abc import Callable

from walrelay.errors import WalrelayError
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.failures import PostgresError
from walrelay.postgres.parts import ALL, NotedPart, NothingKnown, Part, PublishedSince, parts, published_since
from walrelay.postgres.publications import PublicationState
from walrelay.postgres.slot_moves import take_row
from walrelay.postgres.slot_records import (
    PublicationNote,
    SlotRecord,
    is_of_another_system,
    slot_records,
    write_note,
)


def note_publication(
    catalog: Catalog, slot: str, table: str, seen: PublicationState, xmin: int | None, *, mended: bool
) -> list[str]:
    """Notes how the outbox is published now; nothing where there is no such slot. `xmin`: of a snapshot from before the
    slot, if there is one. `mended`: the outbox may not have been published until now. Returns `PublicationNote.lost`.
    """
    record, found = _of_this_system(catalog, slot, table), parts(catalog, table)
    ((next_number, now),) = catalog.rows(
        "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::int8, to_json(clock_timestamp())#>>'{}'"
    )

    def otherwise(part: Part) -> PublishedSince:
        # If the part is empty, all its rows will be published: the slot is there by now, and what was attached or
        # rewritten has no earlier row. Otherwise the rows of transactions with numbers from now on are; one that was
        # open when the slot was made may have ended before or after, and one that was open when the outbox came back
        # into the publication is not sent.
        certain = xmin is not None or not (mended or _differs(record, seen))
        return ALL if certain and _is_empty(catalog, part) else PublishedSince(next_number, now)

    note = _note(record, seen, found, otherwise, mended=mended)
    if is_of_another_system(catalog, slot):
        take_row(catalog, slot, "")  # its position means nothing here
    write_note(catalog, slot, note, xmin)
    return note.lost


def note_another_filter(
    catalog: Catalog, slot: str, table: str, before: PublicationState, now: PublicationState
) -> bool:
    """Notes that the outbox is published by another entry since a single transaction of ours: what was known to be
    published still is. False, and nothing is noted, if the outbox was not `before` as it was noted.
    """
    record = _of_this_system(catalog, slot, table)
    if record is None or record.parts is None or record.seen is None or _differs(record, before):
        return False
    write_note(catalog, slot, PublicationNote(now, record.parts, []), None)
    return True


def note_before_backfill(
    catalog: Catalog, slot: str, table: str, publication: str | None
) -> Callable[[int], PublicationNote]:
    """Looks at the outbox before the slot is made. The result is to be called with the xmax of the slot's snapshot:
    what later transactions write is in the stream, and of parts that nothing was known of, only that.
    """
    record, seen = _of_this_system(catalog, slot, table), catalog.published(publication or "", table).seen
    found = parts(catalog, table)
    now = catalog.value("SELECT to_json(clock_timestamp())#>>'{}'")
    return lambda xmax: _note(record, seen, found, lambda part: PublishedSince(xmax, now), mended=False)


def _note(
    record: SlotRecord | None,
    seen: PublicationState,
    found: list[Part],
    otherwise: Callable[[Part], PublishedSince],
    *,
    mended: bool,
) -> PublicationNote:
    """The parts as they are: each with what was known of it if that still holds, else with `otherwise`."""
    noted, lost = dict[int, NotedPart](), list[str]()
    differs = mended or _differs(record, seen)
    if record is not None and differs:
        lost.append("the way the outbox is published has changed since `walrelay init` last looked")
    for part in found:
        since = published_since(part, record.published_from or 0, record.parts) if record and not differs else None
        if since is None or isinstance(since, NothingKnown):
            after = otherwise(part)
            lost += [since.why] if since and after.number else []
            since = after
        noted[part.oid] = NotedPart(part.file, part.attached, since)
    return PublicationNote(seen, noted, lost)


def _differs(record: SlotRecord | None, seen: PublicationState) -> bool:
    """Whether outbox or publication are others than noted, or were altered since."""
    return record is not None and record.seen is not None and not record.seen.same(seen)


def _of_this_system(catalog: Catalog, slot: str, table: str) -> SlotRecord | None:
    """The slot's record, if it says anything about this system."""
    record = slot_records(catalog, slot, table).get(slot)
    return record if record and record.of_this_system and record.published_from is not None else None


def _is_empty(catalog: Catalog, part: Part) -> bool:
    try:
        with catalog.connection.transaction():
            catalog.connection.execute("SET LOCAL row_security = off")  # or a policy would make it look empty
            return not catalog.value(f"SELECT EXISTS (SELECT FROM ONLY {part.name})")
    except (PostgresError, WalrelayError):
        return False  # not known
