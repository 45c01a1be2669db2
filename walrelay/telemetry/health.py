"""Whether a relay is well: for whom it waits, since when, and what to do. Pure: the numbers in, a verdict out."""

from shlex import quote
from typing import Any, Literal, NamedTuple

from walrelay.observe.numbers import State
from walrelay.telemetry.instruments import RelayView

Side = Literal["nobody", "postgres", "relay", "sink", "registry", "leader", "policy", "operator"]
"""Who has to move before the relay can. policy: a refused event stopped it, or a pause that cost too much; operator: an
error that no retry cures, or a pause.
"""

_SIDES: dict[str, Side] = {
    "Disconnected": "postgres",
    "NotConnected": "postgres",
    "NotServing": "postgres",
    "RegistryAway": "registry",
    "NotStarted": "operator",
}
"""Who is meant by an error that is retried, by its class; any other is the sink's."""

_STARTING = 300.0  # seconds that a start or a stop may take: it waits for servers, each of which may take its time
_ORDERLY = {"Waiting", "StartAnew", "StopAhead"}
_POLICY = {"Refused", "Undecodable", "Unroutable", "SlotGivenUp"}

_LOST = "walrelay recover --dry-run"
_WHO = "walrelay status  # shows who leads"
_WHERE = "py-spy dump --pid PID says where it hangs; then restart it"


class HealthVerdict(NamedTuple):
    """`ready`: it makes progress or has nothing to do, or stands by and would take over. `alive`: no restart of the
    process would help. `since`: by `monotonic`.
    """

    waits_for: Side
    since: float
    why: str
    hint: str = ""
    ready: bool = False
    alive: bool = True


class RelayHealth(NamedTuple):
    """A verdict, as the endpoints show it. `started`: it knows what it is to do."""

    relay: str
    slot: str
    state: State
    alive: bool
    ready: bool
    started: bool
    waits_for: Side
    seconds: float
    why: str
    hint: str

    def as_json(self) -> dict[str, Any]:
        return self._asdict() | {"seconds": round(self.seconds, 1)}


def health(view: RelayView, now: float, stall_after: float) -> RelayHealth:
    """`now`: by `monotonic`. `stall_after`: how many seconds nothing may be settled while there is something to do."""
    numbers, verdict = view.numbers, _verdict(view, now, stall_after)
    return RelayHealth(
        view.name,
        numbers.slot,
        numbers.state,
        verdict.alive,
        verdict.ready,
        numbers.state != "starting",
        verdict.waits_for,
        max(0.0, now - verdict.since),
        verdict.why,
        verdict.hint,
    )


def _verdict(view: RelayView, now: float, stall_after: float) -> HealthVerdict:
    numbers, since = view.numbers, view.numbers.state_since
    last = numbers.last_error
    match numbers.state:
        case "streaming" | "waiting":
            return _of_a_stream(view, now, stall_after)
        case "standing by":
            if now - view.answered_at > stall_after:
                return HealthVerdict("postgres", view.answered_at, "it gives no answer", "walrelay doctor")
            if view.figures is not None and view.figures.wal_status == "lost":
                return HealthVerdict("operator", since, "the slot is lost", _LOST)
            if _stuck(view, now, stall_after):
                text = "another process leads, or the server has not noticed yet that it is gone; it confirms nothing"
                return HealthVerdict("leader", view.unmoved_since, text, _WHO)
            return HealthVerdict("nobody", since, "another instance leads, and this one would take over", ready=True)
        case "paused":
            resume = f"walrelay resume {quote(view.name or numbers.slot)}"
            return HealthVerdict("operator", since, numbers.pause, resume, ready=True)
        case "failed" if last is not None:
            return HealthVerdict("policy" if last.error in _POLICY else "operator", since, last.text, numbers.hint)
        case "retrying" if last is not None:
            if last.error in _ORDERLY:
                soon = now - since <= stall_after
                return HealthVerdict("nobody" if soon else "leader", since, last.text, "" if soon else _WHO, soon)
            side, stalled = _SIDES.get(last.error, "sink"), numbers.stalled
            began = stalled.since if stalled is not None and side == "sink" else since
            return HealthVerdict(side, began, last.text, "walrelay doctor")
        case state:
            hangs = state != "stopped" and now - max(since, numbers.turned_at) > max(stall_after, _STARTING)
            return HealthVerdict("relay", since, f"it is {state}", _WHERE if hangs else "", alive=not hangs)


def _of_a_stream(view: RelayView, now: float, stall_after: float) -> HealthVerdict:
    numbers, figures = view.numbers, view.figures
    if now - numbers.turned_at > stall_after:
        why = "the loop does not turn: it is busy, or hangs"
        return HealthVerdict("relay", numbers.turned_at, why, _WHERE, alive=False)
    for each in (numbers.stalled, numbers.held_up):
        if each is not None and now - each.moved_at > stall_after:
            waiting = f"{numbers.in_flight} messages wait: " if numbers.in_flight else ""
            why = waiting + each.why if each.by == "sink" else each.why
            return HealthVerdict(each.by, each.since, why, each.hint or "walrelay doctor")
    if figures is not None and figures.wal_status == "lost":
        return HealthVerdict("operator", numbers.state_since, "the slot is lost", _LOST)
    moved = max(numbers.settled_at, numbers.read_at)
    if now - moved > stall_after and figures is not None and _stuck(view, now, stall_after):
        text = f"PostgreSQL has {figures.lag_bytes} bytes of WAL for the slot, and sends nothing"
        hint = "pg_stat_activity shows what the walsender does: it may be decoding a large transaction"
        return HealthVerdict("postgres", moved, text, hint)
    if (hindrance := numbers.hindrance) is not None:
        return HealthVerdict(hindrance.by, hindrance.since, hindrance.why, "walrelay doctor", ready=True)
    why = "publishing" if numbers.in_flight else "nothing to read"
    return HealthVerdict("nobody", numbers.settled_at, why, ready=True)


def _stuck(view: RelayView, now: float, stall_after: float) -> bool:
    """Whether the slot has had WAL to read for so long, and did not move."""
    return view.figures is not None and bool(view.figures.lag_bytes) and now - view.unmoved_since > stall_after
