"""All relays of a database as the server has them now: a few statements, however many relays there are."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from walrelay.control.state import Level, facts_of, relay_state
from walrelay.control.table import RelayRow, no_relays_table, relay_rows, relays_table_exists
from walrelay.dead_letters.counts import waiting_of
from walrelay.errors import Fatal
from walrelay.postgres.candidates import Instances, instances
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.retained import SlotWal, slot_wal
from walrelay.source.lag import lags

CountLetters = Callable[[Catalog, Sequence[str]], Mapping[str, int] | None]

_NOBODY = Instances(False, 0)


class RelayGlance(NamedTuple):
    """A relay as the table and the server have it now. `instance`: of the leader; None: nobody leads. `lag_seconds`:
    the age of the oldest event that has waited for long; None: not known. `dead_letters`: open ones; None: not known.
    `level`, `why`, `since`, `todo`: of the state.
    """

    name: str
    slot: str
    state: str
    instance: str | None
    position: str | None
    lag_bytes: int | None
    lag_seconds: float | None
    retained_bytes: int | None
    safe_bytes: int | None
    last_error: str | None
    updated_at: str | None
    paused: bool
    pause_reason: str | None = None
    paused_by: str | None = None
    paused_at: str | None = None
    paused_until: str | None = None
    pause_limit: int | None = None
    at_pause_limit: str | None = None
    wal_status: str | None = None
    standbys: int = 0
    dead_letters: int | None = None
    level: Level = "ok"
    why: str = ""
    since: str | None = None
    todo: str = ""
    last_error_at: str | None = None
    error_count: int | None = None

    def as_json(self) -> dict[str, Any]:
        return self._asdict()


def glance(
    catalog: Catalog, relays: dict[str, str], *, without_table: bool = False, letters: CountLetters = waiting_of
) -> list[RelayGlance]:
    """These relays, names by slot, and every other that walrelay.relays has. Fatal on a standby, or if the table is
    missing, unless as much as can be known `without_table` is wanted.
    `letters` counts open dead letters, by slot: of many that takes longest.
    """
    if catalog.in_recovery():
        raise Fatal(
            "the server is a standby: only the primary knows which relays are led, and how far they are",
            hint="Name the primary in source.dsn, or several hosts with target_session_attrs=primary.",
        )
    there = relays_table_exists(catalog)
    if not (there or without_table):
        raise no_relays_table()
    rows = {row.slot: row for row in (relay_rows(catalog) if there else ())}
    unknown = [slot for slot in relays if slot not in rows]
    listed = [*rows.values(), *(RelayRow(slot, relays[slot]) for slot in unknown)]
    slots = [row.slot for row in listed]
    wal, found, ages = slot_wal(catalog, slots), instances(catalog, slots), lags(catalog, slots)
    counts = letters(catalog, slots)
    made = [
        _glance(
            row,
            wal.get(row.slot),
            found.get(row.slot, _NOBODY),
            ages.get(row.slot),
            None if counts is None else counts.get(row.slot, 0),
        )
        for row in listed
    ]
    return sorted(made, key=lambda each: (each.name, each.slot))


def _glance(
    row: RelayRow, wal: SlotWal | None, there: Instances, lag: float | None, letters: int | None
) -> RelayGlance:
    terms: tuple[Any, Any, Any, Any, Any, Any] = None, None, None, None, None, None
    if row.pause is not None:
        at, by, reason, until, _, limit, drops_slot, _ = row.pause
        then = "drop_slot" if drops_slot else "resume"
        terms = (reason or None, by, at, until, limit, None if limit is None else then)
    found = relay_state(facts_of(row, wal, led=there.led))
    return RelayGlance(
        row.name,
        row.slot,
        found.state,
        row.instance if there.led else None,
        wal.confirmed if wal else row.position,
        wal.lag if wal else None,
        lag,
        wal.retained if wal else None,
        wal.safe if wal else None,
        row.last_error,
        row.updated_at,
        row.pause is not None,
        *terms,
        wal.wal_status if wal else None,
        there.standbys,
        letters,
        *found[1:],
        row.last_error_at,
        row.errors,
    )
