"""Pausing a relay and resuming it, and all relays of a database at a glance: by the table, and without a process."""

from collections.abc import Callable
from time import monotonic
from typing import Any, NamedTuple

from walrelay.control.table import (
    TABLE,
    Pause,
    PauseRequest,
    RelayRow,
    begin_pause,
    end_pause,
    no_relays_table,
    relay_rows,
    relays_table_exists,
)
from walrelay.errors import Fatal
from walrelay.lsn import LSN
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.locks import lock_key, of_lock
from walrelay.postgres.retained import SlotWal, slot_wal
from walrelay.postgres.rights import OWN, Right, missing_rights
from walrelay.postgres.role_checks import refuse_missing_rights
from walrelay.source.lag import reported_lag

_MEASURED, _APART = 60.0, 1.0  # seconds in which the rate of the WAL is measured, and between positions that are kept


class PauseCost(NamedTuple):
    """What a pause costs: bytes of WAL now, bytes that are written a minute at the present rate, and how much more may
    be written before the slot is lost (None: any amount). `led`: whether an instance leads the relay, to obey.
    """

    retained: int | None
    per_minute: int
    safe: int | None
    led: bool

    @property
    def hours_left(self) -> float | None:
        """Until the slot is lost, at the present rate; None: it is not lost by that."""
        return None if self.safe is None or not self.per_minute else self.safe / self.per_minute / 60


class _Seen(NamedTuple):
    at: float  # by `monotonic`
    lsn: LSN


class RelayGlance(NamedTuple):
    """A relay as the table and the server have it now. `instance`: of the leader; None: nobody leads. `lag_seconds`:
    the age of the oldest event that has waited for long; None: not known.
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

    def as_json(self) -> dict[str, Any]:
        return self._asdict()


class WalPace:
    """How fast the server writes WAL, by the positions that were seen within the last minute; the first question takes
    `moment` seconds.
    """

    def __init__(self, wait: Callable[[float], object], moment: float = 2.0) -> None:
        self._wait, self._moment = wait, moment
        self._seen: tuple[_Seen, ...] = ()  # replaced, and never changed: many threads ask

    def look(self, catalog: Catalog) -> _Seen:
        """Now is a time to measure from."""
        now = _Seen(monotonic(), catalog.current_lsn())
        seen = [each for each in self._seen if now.at - each.at < _MEASURED and each.lsn <= now.lsn]
        if not seen or now.at - seen[-1].at >= _APART:
            seen.append(now)
        self._seen = (*seen,)
        return now

    def per_minute(self, catalog: Catalog) -> int:
        now = self.look(catalog)
        if (early := self._moment - (now.at - self._seen[0].at)) > 0:
            self._wait(early)
            now = self.look(catalog)
        first = self._seen[0]
        return max(0, int((now.lsn - first.lsn) / max(now.at - first.at, 0.001) * 60))


def pause(catalog: Catalog, slot: str, name: str, request: PauseRequest) -> Pause:
    """Pauses the relay; the pause as the table has it now."""
    _refuse(catalog, f"pause {name}")
    _refuse_without_slot(catalog, slot, name)
    if request.until and not catalog.value("SELECT %s::timestamptz > clock_timestamp()", request.until):
        raise Fatal(f"a pause until {request.until} is over already", hint="Give a time in the future.")
    begun = begin_pause(catalog, slot, name, request)
    assert begun is not None
    return begun


def pause_cost(catalog: Catalog, slot: str, name: str, pace: WalPace) -> PauseCost:
    """What a pause costs, whether the relay is paused or not."""
    _refuse_without_slot(catalog, slot, name)
    per_minute = pace.per_minute(catalog)
    wal = slot_wal(catalog, [slot]).get(slot, SlotWal(False, None, None, None, None, None))
    return PauseCost(wal.retained, per_minute, wal.safe, slot in _led(catalog, [slot]))


def resume(catalog: Catalog, slot: str, name: str) -> bool:
    """False if it was not paused."""
    _refuse(catalog, f"resume {name}")
    return end_pause(catalog, slot)


def glance(catalog: Catalog, relays: dict[str, str]) -> list[RelayGlance]:
    """These relays, names by slot, and every other that the table has."""
    if not relays_table_exists(catalog):
        raise no_relays_table()
    rows = {row.slot: row for row in relay_rows(catalog)}
    unknown = [slot for slot in relays if slot not in rows]
    listed = [*rows.values(), *(RelayRow(slot, relays[slot], "not started", *[None] * 5) for slot in unknown)]
    slots = [row.slot for row in listed]
    wal, led = slot_wal(catalog, slots), _led(catalog, slots)
    made = [_glance(catalog, row, wal.get(row.slot), led=row.slot in led) for row in listed]
    return sorted(made, key=lambda each: (each.name, each.slot))


def _glance(catalog: Catalog, row: RelayRow, wal: SlotWal | None, *, led: bool) -> RelayGlance:
    state = row.state
    if wal is None:
        state = "no slot"
    elif not led and state in ("streaming", "paused", "retrying"):
        state = "paused" if row.pause is not None else "not running"
    terms: tuple[Any, ...] = ()
    if row.pause is not None:
        at, by, reason, until, _, limit, drops_slot = row.pause
        terms = (reason or None, by, at, until, limit, None if limit is None else _at_limit(drops_slot))
    return RelayGlance(
        row.name,
        row.slot,
        state,
        row.instance if led else None,
        wal.confirmed if wal else row.position,
        wal.lag if wal else None,
        (reported_lag(catalog, row.slot) or 0.0) if wal and wal.active else None,
        wal.retained if wal else None,
        wal.safe if wal else None,
        row.last_error,
        row.updated_at,
        row.pause is not None,
        *terms,
    )


def _at_limit(drops_slot: bool) -> str:
    return "drop_slot" if drops_slot else "resume"


def _led(catalog: Catalog, slots: list[str]) -> set[str]:
    """The slots whose lead somebody holds."""
    return {
        slot
        for slot in slots
        if catalog.value(f"SELECT 1 FROM pg_locks l WHERE {of_lock(lock_key(slot))} AND granted LIMIT 1")
    }


def _refuse_without_slot(catalog: Catalog, slot: str, name: str) -> None:
    if catalog.slot(slot) is None:
        raise Fatal(f"slot {slot!r} of relay {name!r} does not exist", hint="Run `walrelay doctor`.")


def _refuse(catalog: Catalog, task: str) -> None:
    if not relays_table_exists(catalog):
        raise no_relays_table()
    table = TABLE.partition(".")[2]
    needed = [Right(each, OWN, table) for each in ("SELECT", "INSERT", "UPDATE")]
    refuse_missing_rights(catalog, missing_rights(catalog.connection, [Right("USAGE", OWN), *needed]), task)
