"""How often somebody may ask: a bucket of tokens for each caller, and no more callers than fit into memory."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from time import monotonic

_MOST = 10_000  # callers that are remembered


class Rate:
    """So many a second, and for a moment `burst` at once. For one thread."""

    def __init__(self, per_second: float, burst: float, clock: Callable[[], float] = monotonic) -> None:
        self._per_second, self._burst, self._clock = per_second, burst, clock
        self._buckets = OrderedDict[Hashable, tuple[float, float]]()

    def take(self, who: Hashable) -> float:
        """0.0 if that one may; otherwise in how many seconds."""
        left = self._left(who)
        if left < 1:
            return (1 - left) / self._per_second
        self._buckets[who] = left - 1, self._clock()
        self._buckets.move_to_end(who)
        if len(self._buckets) > _MOST:
            self._buckets.popitem(last=False)
        return 0.0

    def wait(self, who: Hashable) -> float:
        """The same, without counting."""
        left = self._left(who)
        return 0.0 if left >= 1 else (1 - left) / self._per_second

    def _left(self, who: Hashable) -> float:
        left, at = self._buckets.get(who, (self._burst, self._clock()))
        return min(self._burst, left + (self._clock() - at) * self._per_second)
