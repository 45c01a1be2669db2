"""The tables walrelay.relays and walrelay.activity: whether they are there, and whether somebody paused the relay."""

from collections.abc import Iterator

from walrelay.control.state import facts_of, relay_state
from walrelay.control.table import ACTIVITY, TABLE, cost, relay_row, relays_table_exists
from walrelay.dead_letters.elsewhere import letters_elsewhere
from walrelay.model import Finding
from walrelay.operations.doctor.expected import Expected, ok, warning
from walrelay.postgres.candidates import instances
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.retained import slot_wal
from walrelay.postgres.slot_records import slots_table_exists
from walrelay.wire.commands import literal

_SUBJECT = "pause"


def table(catalog: Catalog, expected: Expected) -> Iterator[Finding]:
    if slots_table_exists(catalog) and not relays_table_exists(catalog):  # otherwise init was not run at all
        detail = f"there is no table {TABLE}: the relay cannot be paused, and its state is not to be seen"
        yield warning(_SUBJECT, detail, f"{expected.walrelay('init')}  -- then restart the relay")


def activity(catalog: Catalog, expected: Expected) -> Iterator[Finding]:
    if slots_table_exists(catalog) and catalog.value("SELECT to_regclass(%s)", ACTIVITY) is None:
        detail = f"there is no table {ACTIVITY}: the relay's live numbers and its last events are not to be seen"
        yield warning("activity", detail, expected.walrelay("init"))


def paused(catalog: Catalog, expected: Expected) -> Iterator[Finding]:
    if not relays_table_exists(catalog):
        return
    slot = expected.slot
    row, wal = relay_row(catalog, slot, slot), slot_wal(catalog, [slot]).get(slot)
    if row.pause is None:
        yield ok(_SUBJECT, "the relay is not paused")
        return
    there = instances(catalog, [slot]).get(slot)
    state = relay_state(facts_of(row, wal, led=there is not None and there.led)).state
    obeyed = f"the relay is paused {row.pause}"
    asked = f"the relay is asked to pause {row.pause}; its leader is {state}, and has not reported that it obeys"
    detail = f"{obeyed if state in ('paused', 'no slot') else asked}; {cost(wal)}"
    end = f"UPDATE {TABLE} SET paused = false WHERE slot_name = {literal(expected.slot)};"
    yield warning(_SUBJECT, detail, end)


def letters_of_others(catalog: Catalog, expected: Expected) -> Iterator[Finding]:
    """Dead letters that no command of this relay would show."""
    yield from letters_elsewhere(catalog, expected.slot, expected.outbox)
