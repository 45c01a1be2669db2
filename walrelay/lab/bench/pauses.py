"""How long a polling worker sleeps before it polls again. No I/O but the clock."""

from time import monotonic
from typing import Protocol


class Pauses(Protocol):
    def after(self, published: int) -> float:
        """Seconds to sleep after a poll that published so many rows."""
        ...


class Every:
    """At fixed times: what a poll takes does not lengthen the interval."""

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._next = monotonic()

    def after(self, published: int) -> float:
        now = monotonic()
        missed = max(0.0, now - self._next) // self._interval
        self._next += (missed + 1) * self._interval
        return max(0.0, self._next - now)


class BackOff:
    """A pause of one second; after three empty polls it doubles with each further one, up to a minute."""

    LONGEST = 60.0

    def __init__(self) -> None:
        self._empty = 0

    def after(self, published: int) -> float:
        self._empty = 0 if published else self._empty + 1
        return min(self.LONGEST, 2.0 ** max(0, self._empty - 2))
