"""A relay that begins anew while its process goes on: it is paused, and resumed as soon as it has settled."""

from collections.abc import Iterator
from threading import Event
from time import monotonic
from typing import NamedTuple

from walrelay.control.table import Pause, PauseRequest, begin_pause, end_pause, pauses, reported_state
from walrelay.errors import Disconnected, Fatal
from walrelay.operations.pausing.pause import Asking, existing_slot, refuse_leaderless, refuse_missing, until_after
from walrelay.postgres.catalog import Catalog
from walrelay.wiring import RelayContact

_MORE = 30.0  # seconds that a restart may take beyond a clean stop of the relay, and its pause beyond that
_LOOK = 0.05  # seconds between two looks
_SETTLES = 5.0  # seconds in which a relay that was resumed may wait or retry before that is its outcome


class RestartStep(NamedTuple):
    """What the leader reported after so many seconds. `error`: why it does not stream."""

    state: str
    seconds: float
    error: str = ""


def restart(contact: RelayContact, catalog: Catalog, name: str, by: str, stop: Event) -> Iterator[RestartStep]:
    """First `paused`, then what it does after that. The pause ends with the steps, at a stop and by an error too, over
    another connection where this one is lost; if this process dies in the middle, at a time that the pause names
    itself. Whoever pauses the relay meanwhile has it paused: Fatal.
    """
    asking = Asking(catalog, contact.dsn)
    try:
        yield from _restart(contact, asking, name, by, stop)
    finally:
        asking.close()


def _restart(contact: RelayContact, asking: Asking, name: str, by: str, stop: Event) -> Iterator[RestartStep]:
    slot = contact.slot
    asking(lambda catalog: refuse_restart(catalog, slot, name))
    patience = contact.shutdown + _MORE
    begun, pause = monotonic(), _begun(asking, slot, name, by, patience + _MORE)
    found = None
    try:
        found = _reported(asking, slot, pause.at, stop, patience, paused=True)
        if found is not None:
            yield RestartStep("paused", monotonic() - begun)
    finally:
        resumed, ended = _ended(asking, slot, name, pause)
    if not ended and asking(lambda catalog: pauses(catalog, [slot])):
        raise _is_paused(name)
    if found is None:
        if stop.is_set():
            return
        raise Fatal(
            f"relay {name!r} did not pause within {patience:g} s, and goes on as before",
            hint="Its log says what it waits for. An instance that cannot write walrelay.relays cannot be restarted"
            " this way: `walrelay doctor`.",
        )
    state, error = _reported(asking, slot, resumed, stop, patience, paused=False) or ("paused", "")
    yield RestartStep(state, monotonic() - begun, "" if state == "streaming" else error)


def _begun(asking: Asking, slot: str, name: str, by: str, seconds: float) -> Pause:
    """The pause of this restart, also where it was begun and only the answer was lost."""
    until = asking(lambda catalog: until_after(catalog, seconds))
    request, asked = PauseRequest(by, "restart", until), 0

    def begin(catalog: Catalog) -> Pause | None:
        nonlocal asked
        asked += 1
        begun = begin_pause(catalog, slot, name, request, new=True)
        there = pauses(catalog, [slot]).get(slot) if begun is None and asked > 1 else None
        return there if there is not None and (there.by, there.reason) == (by, request.reason) else begun

    pause = asking(begin)
    if pause is None:
        raise _is_paused(name)
    return pause


def _ended(asking: Asking, slot: str, name: str, pause: Pause) -> tuple[str, bool]:
    """When the pause was ended, by the server's clock, and whether it was. Fatal where the server cannot be asked."""
    ended = False

    def end(catalog: Catalog) -> str:
        nonlocal ended
        at = str(catalog.value("SELECT clock_timestamp()::text"))
        ended = end_pause(catalog, slot, pause) or ended
        return at

    try:
        return asking(end), ended
    except Disconnected as lost:
        raise Fatal(
            f"{lost}; relay {name!r} stays paused until {pause.until}",
            hint=f"`walrelay resume {name}` lets it go on at once.",
        ) from lost


def refuse_restart(catalog: Catalog, slot: str, name: str) -> None:
    """Fatal where the relay cannot be restarted."""
    refuse_missing(catalog, f"restart {name}")
    existing_slot(catalog, slot, name)
    if pauses(catalog, [slot]):
        raise _is_paused(name)
    refuse_leaderless(catalog, slot, name, "there is nothing to restart", "restart")


def _is_paused(name: str) -> Fatal:
    hint = f"`walrelay resume {name}` ends that, and it begins anew; `walrelay relays` says who paused it."
    return Fatal(f"relay {name!r} is paused already", hint=hint)


def _reported(
    asking: Asking, slot: str, since: str, stop: Event, patience: float, *, paused: bool
) -> tuple[str, str] | None:
    """State and last error, once the leader has reported that it is paused, or is not; None: it has not. A relay that
    does not stream yet is given some seconds: it may have lost its connections as well.
    """
    deadline, settled = monotonic() + patience, None
    while monotonic() < deadline and not stop.is_set():
        found = asking(lambda catalog: reported_state(catalog, slot, since))
        if found is not None and (found[0] == "paused") == paused:
            if paused or found[0] in ("streaming", "failed"):
                return found
            settled = settled or monotonic() + _SETTLES
            if monotonic() > settled:
                return found
        stop.wait(_LOOK)
    return None
