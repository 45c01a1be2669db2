"""How much at a time and with which pauses: batches that take about as long as planned, and a share of the time."""

# Seconds that a batch should take. A commit of somebody else's waits until the WAL of the batch is on disk too: that is
# why it is short, and not its locks, for which nobody waits.
TARGET = 0.01
_FIRST, _MOST = 32, 8192  # pages
_LONGEST_PAUSE = 5.0


class Rhythm:
    """Pages for the next batch, and the pause before it; both follow from how long the last one took."""

    def __init__(self, share: float, target: float | None = None) -> None:
        """`share`: of the time that is worked, above 0 and up to 1."""
        self._share, self._target = share, TARGET if target is None else target
        self.pages = _FIRST

    def took(self, seconds: float) -> float:
        """The pause after a batch that took so long."""
        factor = min(2.0, max(0.25, self._target / max(seconds, 1e-6)))
        self.pages = min(_MOST, max(1, int(self.pages * factor)))
        return min(_LONGEST_PAUSE, seconds * (1 / self._share - 1))

    def gave_way(self) -> None:
        """The batch could not be done."""
        self.pages = max(1, self.pages // 4)
