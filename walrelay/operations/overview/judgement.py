"""Which relays somebody has to look at, why, and what to do. Pure: what is known of a relay in, a judgement out."""

from shlex import quote
from typing import Literal, NamedTuple

from walrelay.operations.overview.glance import RelayGlance
from walrelay.postgres.sizes import size

Level = Literal["ok", "warning", "critical"]

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
    broken = _broken(relay)
    if broken is not None:
        return broken
    name = quote(relay.name)  # whoever may write the table names it, and the command is pasted into a shell
    if relay.wal_status == "unreserved":
        return Judgement("critical", "the slot is lost at the next checkpoint", f"walrelay status  # of {name}")
    if safe_seconds is not None and safe_seconds < _SOON:
        what = "while it is paused, the" if relay.paused else "the"
        why = f"{what} slot is lost in {duration(safe_seconds)} at the present rate of WAL"
        return Judgement("critical", why, f"walrelay resume {name}" if relay.paused else "walrelay doctor")
    if relay.paused:
        by = f"by {relay.paused_by}" if relay.paused_by else "by an unknown role"
        reason = f": {relay.pause_reason}" if relay.pause_reason else ""
        return Judgement("warning", f"paused {by}{reason}", f"walrelay resume {name}")
    if relay.state == "retrying":
        return Judgement("warning", relay.last_error or "it tries again after an error", "walrelay doctor")
    lag = relay.lag_seconds or 0.0
    if lag > _LATE:
        why = f"the oldest event has waited for {duration(lag)}" + (f": {stalled}" if stalled else "")
        return Judgement("critical" if lag > _TOO_LATE else "warning", why, "walrelay doctor")
    if relay.dead_letters:
        one = relay.dead_letters == 1
        why = f"{relay.dead_letters:,} dead {'letter waits' if one else 'letters wait'} for a decision"
        return Judgement("warning", why, "walrelay dlq list")
    behind = relay.lag_bytes or 0  # an answer to whoever looks at it is a little WAL, too
    return Judgement("ok", "nothing waits" if behind < _NOTEWORTHY else f"{size(behind)} of WAL to read")


def _broken(relay: RelayGlance) -> Judgement | None:
    """A relay that publishes nothing until somebody does something."""
    if relay.state == "no slot" and relay.updated_at is None:
        return Judgement("warning", "it was never started: there is no slot", "walrelay init")
    if relay.state == "no slot":
        return Judgement("critical", "its slot is gone", "walrelay recover --dry-run")
    if relay.wal_status == "lost":
        return Judgement("critical", "its slot is lost", "walrelay recover --dry-run")
    if relay.state == "failed":
        return Judgement("critical", relay.last_error or "it ended with an error", "walrelay doctor")
    if relay.instance is None and not relay.paused and relay.state in ("not running", "stopped", "not started"):
        return Judgement("critical", "no instance leads it", "walrelay run  # its log says why it ended")
    return None


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
