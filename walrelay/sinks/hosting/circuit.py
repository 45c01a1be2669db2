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


def backed_off(failures: int) -> float:
    """The pause after so many failures in a row."""
    return min(FIRST_PAUSE * 2.0 ** min(failures - 1, 20), LAST_PAUSE)


class Circuit:
    """Of one place. While it is open, one request at a time is sent, each after a pause; an answer to it closes it.

    It opens at once for what speaks for all messages: no connection, 429, 503 or `Retry-After`. Requests that were sent
    before it opened say nothing new.
    """

    def __init__(self) -> None:
        self.open = False
        self.until = 0.0
        """Nothing is to be sent before, while it is open."""
        self._failing: set[int] = set()
        self._failures = 0  # since it opened
        self._decided = 0.0  # when the last of them was counted

    def failed(self, message: int, began: float, now: float, *, speaks_for_all: bool, pause: float | None) -> None:
        """`message`: a number of its own. `began`: when its request did. `pause`: what it is asked for."""
        self._failing.add(message)
        if self.open and pause is not None:
            self.until = max(self.until, now + pause)
        if began < self._decided or not (self.open or speaks_for_all or len(self._failing) >= _OPENS_AFTER):
            return
        self.open, self._decided = True, now
        self._failures += 1
        self.until = max(self.until, now + max(pause or 0.0, backed_off(self._failures)))

    def answered(self, began: float) -> None:
        """It answered a request of then, whatever it said about the message."""
        if began < self._decided:
            return
        self.open, self.until, self._failures = False, 0.0, 0
        self._failing.clear()


class Gate:
    """What requests go through: so many at a time, and one while the circuit is open, after its pause."""

    def __init__(self, circuit: Circuit, slots: asyncio.Semaphore) -> None:
        self.circuit, self._slots = circuit, slots
        self._turn = asyncio.Lock()

    async def through(self, attempt: Callable[[], Awaitable[Outcome]]) -> Outcome:
        """Makes the attempt when it is its turn."""
        while True:
            if self.circuit.open:
                async with self._turn:
                    while self.circuit.open and (pause := self.circuit.until - monotonic()) > 0:
                        await asyncio.sleep(pause)
                    if self.circuit.open:
                        async with self._slots:
                            return await attempt()
            async with self._slots:
                if not self.circuit.open:  # it may have opened while there was no slot
                    return await attempt()
