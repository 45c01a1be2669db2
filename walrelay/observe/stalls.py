"""Notices that nothing is settled."""

from collections.abc import Callable
from time import monotonic

from walrelay.observe import Observer, Resumed, Stalled


class StallWatch:
    """Reports when nothing is settled: a silent stall behind a green check is the worst failure.

    What counts is the oldest transaction: receipts for later ones do not free any WAL while it is stuck.
    """

    def __init__(self, observer: Observer, trouble: Callable[[], str], *, patience: float = 5.0) -> None:
        self._observer = observer
        self._trouble = trouble
        self._patience = patience
        self._progress = 0
        self._moved = monotonic()  # when the oldest transaction last got a receipt, or nothing waited for one
        self._said = 0.0

    def look(self, unsettled: int, progress: int) -> None:
        """To be called at each turn: `unsettled` messages wait, `progress` counts the oldest one's receipts."""
        now = monotonic()
        if progress != self._progress or unsettled == 0:
            if self._said:
                self._observer.saw(Resumed(now - self._moved))
            self._progress, self._moved, self._said = progress, now, 0.0
        elif now - max(self._moved, self._said) > self._patience * (2 if self._said else 1):
            self._said = now
            self._observer.saw(Stalled(now - self._moved, unsettled, self._trouble()))
