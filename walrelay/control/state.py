"""The state of a relay: the one place that computes it. Pure: what is known of a relay in; its state, why, and what to
do out.
"""

from shlex import quote
from typing import Literal, NamedTuple

from walrelay.control.table import RelayRow
from walrelay.postgres.retained import SlotWal

Level = Literal["ok", "warning", "critical"]

_ENDED = "walrelay run  # its log says why it ended"
_RETRIES = 90.0  # seconds in which an instance that retries reports again; earlier versions give up the lead meanwhile
_OBEYS = 10.0  # seconds in which a leader obeys a pause


class RelayFacts(NamedTuple):
    """What is known of a relay. `reported`: the state that its instance reported last, `age` seconds ago; None: none
    ever did. `led`: an instance holds the lead; `active`: it streams. `slot`: whether there is one; `wal_status`: its.
    `error`: the last one, `error_at`. `pause`: the pause that is asked for, in words, `pause_age` seconds ago. `waits`:
    for what the leader says that it waits, if it was asked.
    """

    name: str
    reported: str
    age: float | None = None
    led: bool = False
    active: bool = False
    slot: bool = True
    wal_status: str | None = None
    error: str | None = None
    error_at: str | None = None
    updated_at: str | None = None
    pause: str | None = None
    paused_at: str | None = None
    pause_age: float = 0.0
    waits: str = ""


class RelayState(NamedTuple):
    """`why`: a clause, or empty where nothing is wrong; `since`: when the state began, as far as that is known; `todo`:
    a command to paste, or empty where nothing is to be done.
    """

    state: str
    level: Level = "ok"
    why: str = ""
    since: str | None = None
    todo: str = ""


def facts_of(row: RelayRow, wal: SlotWal | None, *, led: bool, waits: str = "") -> RelayFacts:
    """What the table and the server know of a relay. `wal`: None where there is no slot."""
    pause = row.pause
    return RelayFacts(
        row.name,
        row.state,
        row.age,
        led,
        active=wal is not None and wal.active,
        slot=wal is not None,
        wal_status=None if wal is None else wal.wal_status,
        error=row.last_error,
        error_at=row.last_error_at,
        updated_at=row.updated_at,
        pause=None if pause is None else str(pause),
        paused_at=None if pause is None else pause.at,
        pause_age=0.0 if pause is None else pause.age,
        waits=waits,
    )


def relay_state(facts: RelayFacts) -> RelayState:
    """The state of the relay, as every command, metric, and page shows it."""
    state = _word(facts)
    if facts.wal_status == "lost" and facts.slot:
        return RelayState(state, "critical", "its slot is lost", facts.updated_at, "walrelay recover --dry-run")
    if facts.pause is not None and state != "no slot":
        return _paused(facts, state)
    error = facts.error
    match state:
        case "no slot" if facts.age is None:
            return RelayState(state, "warning", "it was never started: there is no slot", None, "walrelay init")
        case "no slot":
            return RelayState(state, "critical", "its slot is gone", facts.updated_at, "walrelay recover --dry-run")
        case "failed":
            return RelayState(
                state, "critical", error or "it ended with an error", facts.error_at or facts.updated_at, _doctor()
            )
        case "waiting":
            why = f"its sink takes or acknowledges nothing: {facts.waits or error or 'it does not say why'}"
            return RelayState(state, "warning", why, facts.error_at, _doctor("it runs, and goes on by itself"))
        case "retrying":
            why = error or "it tries again after an error"
            return RelayState(state, "warning", why, facts.error_at, _doctor("it runs, and tries again by itself"))
        case "not running" | "stopped" | "not started" if not facts.led:
            return RelayState(state, "critical", "no instance leads it", facts.updated_at, _ENDED)
    return RelayState(state, since=facts.updated_at)


def _word(facts: RelayFacts) -> str:
    """A state is what the process said last: one that was killed could not say so, and one of an earlier version may
    not say anything.
    """
    reported = facts.reported
    if not facts.slot:
        return "no slot"
    if facts.led:
        silent = reported in ("not started", "stopped", "failed", "paused")
        return "streaming" if facts.active and silent else reported
    if facts.pause is not None and reported != "failed":
        return "paused"
    if reported == "retrying" and facts.age is not None and facts.age < _RETRIES:
        return "retrying"
    return "not running" if reported in ("starting", "streaming", "waiting", "paused", "retrying") else reported


def _paused(facts: RelayFacts, state: str) -> RelayState:
    resume = f"walrelay resume {quote(facts.name)}"  # whoever may write the table names it
    if state == "paused" and facts.led:
        return RelayState(state, "warning", f"paused {facts.pause}", facts.paused_at, resume)
    if not facts.led:
        why = f"paused {facts.pause}; no instance leads it, and one that starts finds the pause"
        return RelayState(state, "warning", why, facts.paused_at, resume)
    if facts.pause_age < _OBEYS:
        return RelayState(state, "warning", f"asked to pause {facts.pause}", facts.paused_at, resume)
    why = f"asked to pause {facts.pause}; its leader has not reported that it obeys"
    return RelayState(
        state, "warning", why, facts.paused_at, _doctor("its leader may be of an earlier version, or wait for its sink")
    )


def _doctor(note: str = "") -> str:
    return f"walrelay doctor  # {note}" if note else "walrelay doctor"
