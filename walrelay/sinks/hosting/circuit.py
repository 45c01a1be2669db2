"""When a broker that fails is asked again: its circuit is pure, the times are the caller's, in seconds. A gate keeps
requests back while a circuit is open.
"""

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import TypeVar

Outcome = TypeVar("Outcome")

FIRST_PAUSE = 0.25
LAST_PAUSE = 30.0
_OPENS_AFTER = 3  # different messages that failed in a row: a single one may be the receiver's own trouble with it

_NEARER = 0.95  # of the distance remains after an answer
_NEAREST = 0.001  # seconds


def backed_off(failures: int, first: float = FIRST_PAUSE) -> float:
    """The pause after so many failures in a row."""
    return min(first * 2.0 ** min(failures - 1, 20), LAST_PAUSE)


class Circuit:
    """Of one place. While it is open, one request at a time is sent, each after a pause; an answer to it closes it.

    It opens at once for what speaks for all messages: no connection, 429, 503 or `Retry-After`. Requests that were sent
    before it opened say nothing new. If it opened because they came too fast, those that follow keep a distance once it
    is closed: twice as much each time, and a little less with each answer.
    """

    def __init__(self) -> None:
        self.open = False
        self.until = 0.0
        """Nothing is to be sent before, while it is open."""
        self.distance = 0.0
        """So many seconds lie between the beginnings of two requests."""
        self._next = 0.0  # no request begins before
        self._failing: set[int] = set()
        self._failures = 0  # since it opened
        self._decided = 0.0  # when the last of them was counted

    def wait(self, now: float) -> float:
        """In so many seconds a request may begin."""
        return max(self.until if self.open else 0.0, self._next) - now

    def begins(self, now: float) -> None:
        """A request does."""
        self._next = now + self.distance

    def failed(
        self,
        message: int,
        began: float,
        now: float,
        *,
        speaks_for_all: bool,
        pause: float | None,
        too_fast: bool = False,
    ) -> None:
        """`message`: a number of its own. `began`: when its request did. `pause`: what it is asked for."""
        if len(self._failing) < _OPENS_AFTER:
            self._failing.add(message)
        if self.open and pause is not None:
            self.until = max(self.until, now + pause)
        if began < self._decided or not (self.open or speaks_for_all or len(self._failing) >= _OPENS_AFTER):
            return
        if too_fast and not (self.open and self.distance):
            self.distance = min(2 * self.distance or FIRST_PAUSE, LAST_PAUSE)
        self.open, self._decided = True, now
        self._failures += 1
        first = self.distance if too_fast else FIRST_PAUSE
        self.until = max(self.until, now + max(pause or 0.0, backed_off(self._failures, first)))

    def answered(self, began: float) -> None:
        """It answered a request of then, whatever it said about the message."""
        if began < self._decided:
            return
        if not self.open:
            self.distance = self.distance * _NEARER if self.distance > _NEAREST else 0.0
        self.open, self.until, self._failures = False, 0.0, 0
        self._failing.clear()


class Gate:
    """What requests go through: so many at a time, at the distance of the circuit; one while it is open, after its
    pause.
    """

    def __init__(self, circuit: Circuit, slots: asyncio.Semaphore) -> None:
        self.circuit, self._slots = circuit, slots
        self._turn = asyncio.Lock()

    async def through(self, attempt: Callable[[], Awaitable[Outcome]]) -> Outcome:
        """Makes the attempt when it is its turn."""
        while True:
            if self.circuit.open or self.circuit.distance:
                async with self._turn:
                    while (pause := self.circuit.wait(monotonic())) > 0:
                        await asyncio.sleep(pause)
                    self.circuit.begins(monotonic())
                    if self.circuit.open:
                        async with self._slots:
                            return await attempt()
            async with self._slots:
                if not self.circuit.open:  # it may have opened while there was no slot
                    return await attempt()
