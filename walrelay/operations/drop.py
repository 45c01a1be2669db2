"""What `walrelay drop` removes: the publication, the record of the slot, and last the slot."""

from walrelay.control.table import delete_row
from walrelay.identifiers import identifier
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.locks import hold, lead_lock, slot_lock
from walrelay.postgres.role_checks import refuse_missing_rights, rights_to_drop_publication, rights_to_replicate
from walrelay.postgres.slot_records import delete_record, missing_rights_on_slots
from walrelay.postgres.slots import drop_slot, unread


def drop_all(catalog: Catalog, slot: str, publication: str | None) -> list[tuple[str, str]]:
    """Removes the publication, the record, and last the slot, which cannot be restored; never the table. All of them,
    or none if one cannot be removed. Yields the outcome of each.
    """
    hold(catalog, slot_lock(catalog, slot))
    hold(catalog, lead_lock(slot, "drop again"))
    found = unread(catalog, slot)
    needed = [
        *missing_rights_on_slots(catalog, "DELETE"),
        *(rights_to_drop_publication(catalog, publication) if publication else []),
    ]
    refuse_missing_rights(catalog, [*needed, *(rights_to_replicate(catalog) if found else [])], f"drop slot {slot}")
    there = publication and catalog.value("SELECT 1 FROM pg_publication WHERE pubname = %s", publication)
    with catalog.connection.transaction():
        if there and publication is not None:
            catalog.run(f"DROP PUBLICATION IF EXISTS {identifier(publication)}")
        delete_record(catalog, slot)
        delete_row(catalog, slot)
        drop_slot(catalog, slot)
    outcomes = [(f"slot {slot}", "dropped" if found else "was not there")]
    if publication is not None:
        outcomes.append((f"publication {publication}", "dropped" if there else "was not there"))
    return outcomes
