"""What a process learned from refusals, in memory. Each of its runs begins with it."""

from time import monotonic
from typing import NamedTuple

from walrelay.dead_letter import DeadLetter, Origin
from walrelay.lsn import LSN

_CLOSED = 60.0  # seconds until a place that refused everything is offered a message again
_MOST_CLOSED = 1_000  # places


class ClosedPlace(NamedTuple):
    """Why a place at the broker is offered nothing before `until` (on the monotonic clock, in seconds)."""

    until: float
    error: str
    reason: str


class ClosedPlaces:
    """Places that refused everything, each until its time is up."""

    def __init__(self) -> None:
        self._places: dict[str, ClosedPlace] = {}  # in the order of their times

    def __len__(self) -> int:
        return len(self._places)

    def close(self, place: str, error: str, reason: str) -> None:
        now = monotonic()
        self._places.pop(place, None)
        self._places[place] = ClosedPlace(now + _CLOSED, error, reason)
        for first, closed in [*self._places.items()]:
            if now < closed.until and len(self._places) <= _MOST_CLOSED:
                break
            del self._places[first]  # one that is forgotten early is offered a message, and refuses it again

    def why(self, place: str) -> ClosedPlace | None:
        """None: it may be offered a message."""
        closed = self._places.get(place)
        if closed is not None and monotonic() >= closed.until:
            del self._places[place]
            return None
        return closed


class RefusalHistory:
    """What a process learned from refusals; each of its runs begins with it."""

    def __init__(self) -> None:
        self.attempts: dict[Origin, int] = {}
        self.closed = ClosedPlaces()
        self.in_no_table: dict[Origin, DeadLetter] = {}
        self.without_value: set[Origin] = set()  # dead letters that are too large for their topic

    def forget_before(self, lsn: LSN) -> None:
        """Records before `lsn` are confirmed and do not come again."""
        self.attempts = {origin: count for origin, count in self.attempts.items() if origin.commit_lsn >= lsn}
        self.in_no_table = {origin: letter for origin, letter in self.in_no_table.items() if origin.commit_lsn >= lsn}
        self.without_value = {origin for origin in self.without_value if origin.commit_lsn >= lsn}
