"""Pausing a relay and resuming it: by the table walrelay.relays, and without a process."""

from collections.abc import Callable
from threading import Event
from time import monotonic
from typing import NamedTuple, TypeVar

from walrelay.control.state import RelayState, facts_of, relay_state
from walrelay.control.table import (
    TABLE,
    Pause,
    PauseRequest,
    begin_pause,
    end_pause,
    no_relays_table,
    relay_row,
    relays_table_exists,
)
from walrelay.errors import Disconnected, Fatal
from walrelay.postgres.candidates import instances
from walrelay.postgres.catalog import Catalog, Slot
from walrelay.postgres.retained import SlotWal, slot_wal
from walrelay.postgres.rights import OWN, Right, missing_rights
from walrelay.postgres.role_checks import refuse_missing_rights
from walrelay.postgres.wal_pace import WalPace
from walrelay.wiring import RelayContact

_T = TypeVar("_T")

PATIENCE = 10.0  # seconds in which a leader reports that it obeys

_LOOK = 0.1  # seconds between two questions
_AGAIN = 30.0  # seconds for a server that restarts or fails over


class Asking:
    """Questions over a connection that is made again where it is lost: a command must not leave its pause behind."""

    def __init__(self, catalog: Catalog, dsn: str) -> None:
        self._catalog, self._dsn, self._own = catalog, dsn, False

    def __call__(self, ask: Callable[[Catalog], _T]) -> _T:
        """The answer; Disconnected where there is none for half a minute. `ask` may be called twice, also where the
        server did what it was asked, and only the answer was lost.
        """
        until = monotonic() + _AGAIN
        while True:
            try:
                if self._catalog.connection.closed:
                    self._catalog, self._own = Catalog(self._dsn), True
                return ask(self._catalog)
            except Disconnected:
                self._catalog.close()
                if monotonic() > until:
                    raise
            Event().wait(_LOOK)

    def close(self) -> None:
        """Closes the connection that was made here; the first one is the caller's."""
        if self._own:
            self._catalog.close()


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


def pause(catalog: Catalog, slot: str, name: str, request: PauseRequest) -> Pause:
    """Pauses the relay; the pause as the table has it now."""
    refuse_missing(catalog, f"pause {name}")
    existing_slot(catalog, slot, name)
    if request.period:
        request = request._replace(until=until_after(catalog, request.period))
    if request.until and not catalog.value("SELECT %s::timestamptz > clock_timestamp()", request.until):
        raise Fatal(f"a pause until {request.until} is over already", hint="Give a time in the future.")
    begun = begin_pause(catalog, slot, name, request)
    assert begun is not None
    return begun


def until_after(catalog: Catalog, seconds: float) -> str:
    """The time after so many seconds by the server's clock: that of an operator's machine may be another one."""
    return str(catalog.value("SELECT (clock_timestamp() + make_interval(secs => %s))::text", seconds))


def await_obedience(asking: Asking, slot: str, name: str, stop: Event, patience: float = PATIENCE) -> str:
    """Why it is not certain that the relay is paused; empty once its leader has reported that it is, or where no
    instance leads.
    """
    found = _await_report(asking, slot, name, stop, patience, paused=True)
    if found is None:
        return ""
    return (
        f"the pause is asked for, and the leader, which is {found.state}, has not reported within"
        f" {patience:g} s that it obeys: it may still settle what is under way, or be of an earlier version;"
        f" `walrelay relays` shows when it is paused, and `walrelay resume {name}` takes the pause back"
    )


def _await_report(
    asking: Asking, slot: str, name: str, stop: Event, patience: float, *, paused: bool
) -> RelayState | None:
    """The relay's state where its leader has not reported in time that it is paused, or is not; None where it has, or
    where no instance leads.
    """
    until = monotonic() + patience
    while True:
        led, found = asking(lambda catalog: (is_led(catalog, slot), state_of(catalog, slot, name)))
        if not led or (found.state == "paused") == paused:
            return None
        if monotonic() > until or stop.is_set():
            return found
        stop.wait(_LOOK)


def state_of(catalog: Catalog, slot: str, name: str) -> RelayState:
    """The relay's state, as all commands have it."""
    wal = slot_wal(catalog, [slot]).get(slot)
    return relay_state(facts_of(relay_row(catalog, slot, name), wal, led=is_led(catalog, slot)))


def refuse_leaderless(catalog: Catalog, slot: str, name: str, consequence: str, then: str) -> None:
    """Fatal where no instance leads the relay, with what to do about it. `then`: the command to be given again."""
    if is_led(catalog, slot):
        return
    found = state_of(catalog, slot, name)
    if found.state == "retrying":
        hint = f"It runs, and tries again by itself: `walrelay doctor` says what is missing. Then {then} it."
        raise Fatal(f"relay {name!r} has no connection now, and {consequence}: {found.why}", hint=hint)
    raise Fatal(f"no instance leads relay {name!r}: {consequence}", hint="Start it: `walrelay run`.")


def pause_cost(catalog: Catalog, slot: str, name: str, pace: WalPace) -> PauseCost:
    """What a pause costs, whether the relay is paused or not."""
    existing_slot(catalog, slot, name)
    per_minute = pace.per_minute(catalog)
    wal = slot_wal(catalog, [slot]).get(slot, SlotWal(False, None, None, None, None, None))
    return PauseCost(wal.retained, per_minute, wal.safe, is_led(catalog, slot))


class Resumption(NamedTuple):
    """`disobeyed`: why it is not certain that the relay goes on; empty once its leader has reported that it is not
    paused any more, or where no instance leads it: `led`.
    """

    was_paused: bool
    led: bool
    disobeyed: str


def resume(contact: RelayContact, catalog: Catalog, name: str, stop: Event, patience: float = PATIENCE) -> Resumption:
    """Ends the pause, and waits until the leader has seen that. A relay without a pause may still rest in one that is
    just over.
    """
    slot = contact.slot
    refuse_missing(catalog, f"resume {name}")
    catalog.slot(slot)  # Fatal for one of another database
    was_paused = end_pause(catalog, slot)
    asking = Asking(catalog, contact.dsn)
    try:
        found = _await_report(asking, slot, name, stop, patience, paused=False)
        led = asking(lambda catalog: is_led(catalog, slot))
    finally:
        asking.close()
    if found is None:
        return Resumption(was_paused, led, "")
    if found.why:
        return Resumption(was_paused, led, f"the pause was ended, and another one has begun: {name} is {found.why}")
    disobeyed = (
        f"the pause is over, and the leader has not reported within {patience:g} s that it goes on: it may still make"
        " its connections, or its own to the database may be away; `walrelay relays` shows when it streams"
    )
    return Resumption(was_paused, led, disobeyed)


def is_led(catalog: Catalog, slot: str) -> bool:
    """Whether an instance leads the slot's relay."""
    there = instances(catalog, [slot]).get(slot)
    return there is not None and there.led


def existing_slot(catalog: Catalog, slot: str, name: str) -> Slot:
    found = catalog.slot(slot)
    if found is None:
        raise Fatal(f"slot {slot!r} of relay {name!r} does not exist", hint="Run `walrelay doctor`.")
    return found


def refuse_missing(catalog: Catalog, task: str) -> None:
    """Fatal on a standby, without the table, or without the rights on it that the task needs."""
    if catalog.in_recovery():
        raise Fatal(
            f"the server is a standby, which takes no writes: nothing can {task} there",
            hint="Name the primary in source.dsn, or several hosts with target_session_attrs=primary.",
        )
    if not relays_table_exists(catalog):
        raise no_relays_table()
    table = TABLE.partition(".")[2]
    needed = [Right(each, OWN, table) for each in ("SELECT", "INSERT", "UPDATE")]
    refuse_missing_rights(catalog, missing_rights(catalog.connection, [Right("USAGE", OWN), *needed]), task)
