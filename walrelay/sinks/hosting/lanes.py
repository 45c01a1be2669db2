"""Lanes: what keeps the order of a key where the broker stores what follows a message that it lost or refused.

One thing of a lane is on its way at a time; what comes after it in the lane waits. Lanes do not wait for each other.
"""

from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

Item = TypeVar("Item")


class Lanes(Generic[Item]):
    """`width`: how many items of a lane may be on their way as one, which the broker takes or refuses as a whole."""

    def __init__(self, width: int = 1) -> None:
        self._width = width
        self._waiting: dict[Hashable, deque[Item]] = {}  # a lane is here while something of it is on its way
        self.held = 0
        """Items that wait."""

    def enter(self, lane: Hashable, item: Item) -> bool:
        """Whether the item is to be sent now; otherwise a `leave` gives it out."""
        waiting = self._waiting.get(lane)
        if waiting is None:
            self._waiting[lane] = deque()
            return True
        waiting.append(item)
        self.held += 1
        return False

    def busy(self, lane: Hashable) -> bool:
        """Whether something of the lane is on its way."""
        return lane in self._waiting

    def leave(self, lane: Hashable) -> list[Item]:
        """What was on its way has arrived: what is to be sent next, in order; nothing if nothing waits."""
        waiting = self._waiting[lane]
        if not waiting:
            del self._waiting[lane]
            return []
        following = [waiting.popleft() for _ in range(min(self._width, len(waiting)))]
        self.held -= len(following)
        return following
