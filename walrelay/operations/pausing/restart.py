"""A relay that begins anew while its process goes on: it is paused, and resumed as soon as it has settled."""

from collections.abc import Iterator
from threading import Event
from time import monotonic
from typing import NamedTuple

from walrelay.control.table import PauseRequest, begin_pause, end_pause, pauses, reported_state
from walrelay.errors import Fatal
from walrelay.operations.pausing.pause import existing_slot, is_led, refuse_missing
from walrelay.postgres.catalog import Catalog
from walrelay.wiring import Wiring

_MORE = 30.0  # seconds that a restart may take beyond a clean stop of the relay, and its pause beyond that
_LOOK = 0.05  # seconds between two looks


class RestartStep(NamedTuple):
    """What the leader reported after so many seconds. `error`: why it does not stream."""

    state: str
    seconds: float
    error: str = ""


def restart(wiring: Wiring, catalog: Catalog, name: str, by: str, stop: Event) -> Iterator[RestartStep]:
    """First `paused`, then what it does after that. The pause ends with the steps, at a stop and by an error too; if
    this process dies in the middle, at a time that the pause names itself. Whoever pauses the relay meanwhile has it
    paused: Fatal.
    """
    slot = wiring.slot
    refuse_restart(catalog, slot, name)
    patience = wiring.limits.shutdown + _MORE
    begun, pause = monotonic(), begin_pause(catalog, slot, name, _terms(catalog, by, patience + _MORE), new=True)
    if pause is None:
        raise _is_paused(name)
    try:
        found = _reported(catalog, slot, pause.at, stop, patience, paused=True)
        if found is not None:
            yield RestartStep("paused", monotonic() - begun)
    finally:
        resumed = str(catalog.value("SELECT clock_timestamp()::text"))
        ended = end_pause(catalog, slot, pause)
    if not ended and pauses(catalog, [slot]):
        raise _is_paused(name)
    if found is None:
        if stop.is_set():
            return
        raise Fatal(
            f"relay {name!r} did not pause within {patience:g} s, and goes on as before",
            hint="Its log says what it waits for. An instance that cannot write walrelay.relays cannot be restarted"
            " this way: `walrelay doctor`.",
        )
    state, error = _reported(catalog, slot, resumed, stop, patience, paused=False) or ("paused", "")
    yield RestartStep(state, monotonic() - begun, "" if state == "streaming" else error)


def refuse_restart(catalog: Catalog, slot: str, name: str) -> None:
    """Fatal where the relay cannot be restarted."""
    refuse_missing(catalog, f"restart {name}")
    existing_slot(catalog, slot, name)
    if pauses(catalog, [slot]):
        raise _is_paused(name)
    if not is_led(catalog, slot):
        raise Fatal(f"no instance leads relay {name!r}: there is nothing to restart", hint="Start it: `walrelay run`.")


def _is_paused(name: str) -> Fatal:
    hint = f"`walrelay resume {name}` ends that, and it begins anew; `walrelay relays` says who paused it."
    return Fatal(f"relay {name!r} is paused already", hint=hint)


def _terms(catalog: Catalog, by: str, seconds: float) -> PauseRequest:
    until = catalog.value("SELECT (clock_timestamp() + make_interval(secs => %s))::text", seconds)
    return PauseRequest(by, "restart", until)


def _reported(
    catalog: Catalog, slot: str, since: str, stop: Event, patience: float, *, paused: bool
) -> tuple[str, str] | None:
    """State and last error, once the leader has reported that it is paused, or is not; None: it has not."""
    deadline = monotonic() + patience
    while monotonic() < deadline and not stop.is_set():
        found = reported_state(catalog, slot, since)
        if found is not None and (found[0] == "paused") == paused:
            return found
        stop.wait(_LOOK)
    return None
