"""Gives the publication a row filter, so that the server does not send the rows that rules drop
(`walrelay init --push-down`).
"""

from typing import NamedTuple

from walrelay.errors import Fatal
from walrelay.identifiers import identifier
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.locks import held, slot_lock
from walrelay.postgres.slot_notes import note_another_filter, note_publication
from walrelay.postgres.slot_records import publisher_of_entry
from walrelay.table.row_filter import Drop, columns_of, dropped, lost, parsed, row_filter, sent, settled
from walrelay.table.selection import published_rows
from walrelay.wiring import Wiring


class PushDown(NamedTuple):
    """`drops`: the rules at the top that drop, each with why the server cannot do it. `sql` empty: it is done."""

    drops: tuple[Drop, ...]
    sql: str


def plan(catalog: Catalog, wiring: Wiring) -> PushDown:
    """Changes nothing. Fatal where the publication can have no filter of these rules."""
    name = wiring.publication
    if name is None:
        raise Fatal(
            "rules cannot be pushed down: wal2json reads no publication, so there is none to have a row filter",
            hint="source.plugin: pgoutput, with a new slot; or leave it to the relay, which drops the rows itself.",
        )
    if catalog.server_version < 150000:
        raise Fatal(
            "rules cannot be pushed down: publications have row filters since PostgreSQL 15",
            hint="The relay drops the rows itself.",
        )
    drops = settled(dropped(wiring), columns_of(catalog, wiring.table), catalog.server_encoding())
    found = published_rows(catalog, name, wiring.table)
    withheld = parsed(found) if found else ()
    wanted = row_filter(drops, columns_of(catalog, wiring.table))
    if withheld is None:
        raise Fatal(
            f"publication {name} has a row filter that was not made of rules: {found}",
            hint="Express it by rules that drop, and remove it; or leave dropping to the relay.",
        )
    if not lost(withheld, drops) and not sent(withheld, drops):
        return PushDown(drops, "")
    _refuse(catalog, wiring, name)
    alter, table = f"ALTER PUBLICATION {identifier(name)}", wiring.table
    where = f" WHERE ({wanted})" if wanted else ""
    return PushDown(
        drops, f"BEGIN;\n{alter} DROP TABLE ONLY {table};\n{alter} ADD TABLE ONLY {table}{where};\nCOMMIT;\n"
    )


def apply(catalog: Catalog, wiring: Wiring, planned: PushDown) -> None:
    """In one transaction, so no row comes between. What was known to be published still is."""
    name = wiring.publication or ""
    with held(catalog, slot_lock(catalog, wiring.slot)):
        before = catalog.published(name, wiring.table).seen
        catalog.run(planned.sql)
        now = catalog.published(name, wiring.table).seen
        if not note_another_filter(catalog, wiring.slot, wiring.table, before, now):
            note_publication(catalog, wiring.slot, wiring.table, now, None, mended=True)


def _refuse(catalog: Catalog, wiring: Wiring, name: str) -> None:
    """What else reads the publication, or would end, if its entry for the table were another."""
    entry = catalog.published(name, wiring.table).entry
    if entry is None:
        raise Fatal(
            f"publication {name} names all tables, or all of a schema: those have no row filter",
            hint="A publication of its own for the outbox can have one: source.publication.",
        )
    ((listed, changes),) = catalog.rows(
        "SELECT r.prattrs IS NOT NULL, p.pubupdate OR p.pubdelete FROM pg_publication_rel r"
        " JOIN pg_publication p ON p.oid = r.prpubid WHERE r.oid = %s::oid",
        entry,
    )
    if changes:  # the filter's columns would have to be in the replica identity
        raise Fatal(
            f"publication {name} also publishes updates or deletions, which would fail with a row filter",
            hint=f"ALTER PUBLICATION {identifier(name)} SET (publish = 'insert');",
        )
    if listed:
        raise Fatal(
            f"publication {name} has a list of columns, which `walrelay init` would remove",
            hint="Publish all columns of the table; or leave dropping to the relay.",
        )
    if (other := publisher_of_entry(catalog, entry, but=wiring.slot)) is not None:
        raise Fatal(
            f"the relay of slot {other} reads publication {name} too, and would lose rows that only these rules drop",
            hint="Each relay needs its own publication (source.publication) to have its own row filter.",
        )
    slot = catalog.slot(wiring.slot)
    if slot is not None and slot.active_pid is not None:
        raise Fatal(
            f"slot {slot.name} is read by PID {slot.active_pid}: a running relay would stop because its outbox is"
            " published in another way",
            hint="Stop the relay, run this again, and start it. What is committed meanwhile waits in the slot.",
        )
