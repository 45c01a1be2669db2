"""Which relays somebody has to look at, why, and what to do. Pure: what is known of a relay in, a judgement out."""

from shlex import quote
from typing import NamedTuple

from walrelay.control.state import Level
from walrelay.operations.overview.glance import RelayGlance
from walrelay.postgres.sizes import size

_LATE, _TOO_LATE = 5.0, 60.0  # seconds that the oldest event has waited for
_NOTEWORTHY = 1_000_000  # bytes of WAL
_SOON = 3600.0  # seconds until the slot is lost


class Judgement(NamedTuple):
    """`why`: in a few words; `todo`: a command to paste, or empty where nothing is to be done."""

    level: Level
    why: str
    todo: str = ""


def judged(relay: RelayGlance, safe_seconds: float | None, stalled: str = "") -> Judgement:
    """`safe_seconds`: until the slot is lost at the present rate of WAL; None: it is not. `stalled`: what the leader
    says it waits for, if it does.
    """
    if relay.level == "critical":
        return Judgement(relay.level, relay.why, relay.todo)
    name = quote(relay.name)  # whoever may write the table names it, and the command is pasted into a shell
    if relay.wal_status == "unreserved":
        return Judgement("critical", "the slot is lost at the next checkpoint", f"walrelay status  # of {name}")
    if safe_seconds is not None and safe_seconds < _SOON:
        what = "while it is paused, the" if relay.paused else "the"
        why = f"{what} slot is lost in {duration(safe_seconds)} at the present rate of WAL"
        return Judgement("critical", why, f"walrelay resume {name}" if relay.paused else "walrelay doctor")
    lag = relay.lag_seconds or 0.0
    late = f"the oldest event has waited for {duration(lag)}"
    if relay.level != "ok":
        why = relay.why if lag <= _LATE or relay.paused else f"{late}: {stalled or relay.why}"
        return Judgement("critical" if lag > _TOO_LATE and not relay.paused else relay.level, why, relay.todo)
    if lag > _LATE:
        why = late + (f": {stalled}" if stalled else "")
        return Judgement("critical" if lag > _TOO_LATE else "warning", why, "walrelay doctor")
    if relay.dead_letters:
        one = relay.dead_letters == 1
        why = f"{relay.dead_letters:,} dead {'letter waits' if one else 'letters wait'} for a decision"
        return Judgement("warning", why, "walrelay dlq list")
    behind = relay.lag_bytes or 0  # an answer to whoever looks at it is a little WAL, too
    return Judgement("ok", "nothing waits" if behind < _NOTEWORTHY else f"{size(behind)} of WAL to read")


def duration(seconds: float) -> str:
    """For people: 12 s, 4 min, 2 h 5 min, 3 days."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min"
    if whole < 86_400:
        minutes = whole % 3600 // 60
        return f"{whole // 3600} h" + (f" {minutes} min" if minutes else "")
    return f"{whole // 86_400} days"
