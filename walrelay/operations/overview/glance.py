"""All relays of a database as the server has them now: a few statements, however many relays there are."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from walrelay.control.table import RelayRow, no_relays_table, relay_rows, relays_table_exists
from walrelay.dead_letters.store import waiting_of
from walrelay.postgres.candidates import Instances, instances
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.retained import SlotWal, slot_wal
from walrelay.source.lag import reported_lags

CountLetters = Callable[[Catalog, Sequence[str]], Mapping[str, int] | None]

_NOBODY = Instances(False, 0)


class RelayGlance(NamedTuple):
    """A relay as the table and the server have it now. `instance`: of the leader; None: nobody leads. `lag_seconds`:
    the age of the oldest event that has waited for long; None: not known. `dead_letters`: open ones; None: not known.
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

    def as_json(self) -> dict[str, Any]:
        return self._asdict()


def glance(
    catalog: Catalog, relays: dict[str, str], *, without_table: bool = False, letters: CountLetters = waiting_of
) -> list[RelayGlance]:
    """These relays, names by slot, and every other that walrelay.relays has. Fatal if it is missing, unless as much
    as can be known `without_table` is wanted. `letters` counts open dead letters, by slot: of many that takes longest.
    """
    there = relays_table_exists(catalog)
    if not (there or without_table):
        raise no_relays_table()
    rows = {row.slot: row for row in (relay_rows(catalog) if there else ())}
    unknown = [slot for slot in relays if slot not in rows]
    listed = [*rows.values(), *(RelayRow(slot, relays[slot], "not started", *[None] * 5) for slot in unknown)]
    slots = [row.slot for row in listed]
    wal, found, lags = slot_wal(catalog, slots), instances(catalog, slots), reported_lags(catalog, slots)
    counts = letters(catalog, slots)
    made = [
        _glance(
            row,
            wal.get(row.slot),
            found.get(row.slot, _NOBODY),
            lags.get(row.slot, 0.0),
            None if counts is None else counts.get(row.slot, 0),
        )
        for row in listed
    ]
    return sorted(made, key=lambda each: (each.name, each.slot))


def _glance(row: RelayRow, wal: SlotWal | None, there: Instances, lag: float, letters: int | None) -> RelayGlance:
    terms: tuple[Any, Any, Any, Any, Any, Any] = None, None, None, None, None, None
    if row.pause is not None:
        at, by, reason, until, _, limit, drops_slot = row.pause
        then = "drop_slot" if drops_slot else "resume"
        terms = (reason or None, by, at, until, limit, None if limit is None else then)
    return RelayGlance(
        row.name,
        row.slot,
        _state(row, wal, led=there.led),
        row.instance if there.led else None,
        wal.confirmed if wal else row.position,
        wal.lag if wal else None,
        lag if wal and wal.active else None,
        wal.retained if wal else None,
        wal.safe if wal else None,
        row.last_error,
        row.updated_at,
        row.pause is not None,
        *terms,
        wal.wal_status if wal else None,
        there.standbys,
        letters,
    )


def _state(row: RelayRow, wal: SlotWal | None, *, led: bool) -> str:
    """A state is what the process said last: one that was killed could not say so."""
    if wal is None:
        return "no slot"
    if not led and row.state in ("streaming", "paused", "retrying"):
        return "paused" if row.pause is not None else "not running"
    if led and wal.active and row.state in ("not started", "stopped", "failed"):
        return "streaming"  # it has not said so yet, or cannot
    return row.state
