"""Lanes: what keeps the order of a key where the broker stores what follows a message that it lost or refused.

One thing of a lane is on its way at a time; what comes after it in the lane waits. Lanes do not wait for each other.
"""

from collections import deque
from collections.abc import Callable, Hashable
from math import inf
from typing import Generic, TypeVar

Item = TypeVar("Item")


class Lanes(Generic[Item]):
    """`width`: how many items of a lane may be on their way as one, which the broker takes or refuses as a whole.
    `most`: what their sizes may add up to, unless there is one only.
    """

    def __init__(self, width: int = 1, size_of: Callable[[Item], int] = lambda item: 0, most: float = inf) -> None:
        self._width, self._size_of, self._most = width, size_of, most
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
        following = [waiting.popleft()]
        if waiting and self._width > 1:
            left = self._most - self._size_of(following[0])
            while waiting and len(following) < self._width and (left := left - self._size_of(waiting[0])) >= 0:
                following.append(waiting.popleft())
        self.held -= len(following)
        return following
