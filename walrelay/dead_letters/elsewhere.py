"""Open dead letters of another slot of the same outbox: after a slot got another name no command would show them.

They are told, not taken over. Two relays may read one outbox, and a letter of one settles nothing of the other. Only an
operator knows whether the slot was renamed.
"""

from collections.abc import Iterator

from walrelay.dead_letters.store import TABLE, readable
from walrelay.model import Finding
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.failures import Denied
from walrelay.postgres.slot_records import OUTBOX_OF_SLOT, slots_table_exists
from walrelay.wire.commands import literal

# A slot whose relay runs is of another relay. What is noted of a table that was made again, or by an earlier version,
# may be missing: then it may be this one.
_QUERY = f"""
    SELECT d.slot_name, count(*), p.slot_name IS NOT NULL
    FROM {TABLE} d LEFT JOIN pg_replication_slots p ON p.slot_name = d.slot_name AND p.database = current_database()
    LEFT JOIN LATERAL (SELECT {OUTBOX_OF_SLOT.format("d.slot_name")} AS oid) AS noted ON true
    WHERE d.status IN ('waiting', 'blocked') AND d.slot_name <> %s AND p.active IS NOT TRUE
      AND coalesce(noted.oid = to_regclass(%s)::oid::int8, p.slot_name IS NULL)
    GROUP BY 1, 3 ORDER BY 1
"""


def letters_elsewhere(catalog: Catalog, slot: str, table: str) -> Iterator[Finding]:
    """A warning for each such slot, with what takes its dead letters over. `table`: the outbox, as quoted identifiers.
    Nothing where that cannot be asked.
    """
    try:
        asked = slots_table_exists(catalog) and readable(catalog)
        found = catalog.rows(_QUERY, slot, table) if asked else []
    except Denied:  # a role that may not read them
        return
    for other, letters, there in found:
        wait = f"{letters} open dead {'letter is' if letters == 1 else 'letters are'} of slot {other}"
        state = "which no relay reads" if there else "which is gone"
        detail = (
            f"{wait}, {state}: this relay neither shows nor replays them, and their keys are not blocked. If the slot"
            f" was renamed, this gives them to {slot}; a running relay has to be started again then"
        )
        names = f"slot_name = {literal(slot)} WHERE slot_name = {literal(other)}"
        yield Finding("dead letters", "warning", detail, f"UPDATE {TABLE} SET {names};")
