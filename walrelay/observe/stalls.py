"""Notices that the sink takes or acknowledges nothing."""

from collections.abc import Callable
from math import inf
from time import monotonic

from walrelay.observe import Observer, Resumed, Stalled

_AGAIN = 10.0  # seconds until a stall that lasts is reported again
_GRACE = 1.0  # seconds for which a sink may be in trouble, or out of it, before that counts


class StallWatch:
    """Reports when nothing is settled: a silent stall behind a green check is the worst failure. And when the sink is
    in trouble: its broker is away, or takes nothing for now, whether or not a message waits.

    Progress is a receipt of the oldest transaction: receipts for later ones do not free any WAL while it is stuck. One
    watch serves all runs of a relay, so a run that ends and begins again is no progress.
    """

    def __init__(self, observer: Observer, trouble: Callable[[], str] = str, *, patience: float = 5.0) -> None:
        self._observer = observer
        self._trouble = trouble
        self._patience = patience
        self._progress = self._unsettled = 0
        self._owed = False  # an earlier run left messages without a receipt, which come again
        self._moved = self._quiet_since = monotonic()  # the last progress; since when nothing waits
        self._troubled_since: float | None = None
        self._troubled_at = 0.0
        self._began: float | None = None  # of the stall that was reported
        self._said = -inf

    def begin(self, trouble: Callable[[], str]) -> None:
        """A run begins, with a new sink and a new count of receipts."""
        self._owed = self._owed or self._unsettled > 0
        self._trouble, self._progress, self._unsettled = trouble, 0, 0
        self._quiet_since, self._said = monotonic(), -inf

    def look(self, unsettled: int, progress: int) -> None:
        """To be called at each turn: `unsettled` messages wait, `progress` counts the oldest one's receipts."""
        now, trouble = monotonic(), self._trouble()
        self._unsettled = unsettled
        self._note_trouble(trouble, now)
        self._note_progress(unsettled, progress, now)
        away = 0.0 if self._troubled_since is None else now - self._troubled_since
        waits = now - self._moved
        if away > _GRACE or (waits > self._patience and (unsettled or self._owed)):
            if now - self._said > _AGAIN:
                self._said = now
                self._began = self._began or now - max(waits, away)
                self._observer.saw(Stalled(waits, unsettled, trouble, max(0.0, away)))
        elif self._began is not None:
            self._observer.saw(Resumed(now - self._began))
            self._began, self._said = None, -inf

    def _note_trouble(self, trouble: str, now: float) -> None:
        if trouble:
            self._troubled_at = now
            if self._troubled_since is None:
                self._troubled_since = now
        elif self._troubled_since is not None and now - self._troubled_at >= _GRACE:
            self._troubled_since = None

    def _note_progress(self, unsettled: int, progress: int, now: float) -> None:
        if progress != self._progress:
            self._progress, self._moved, self._owed = progress, now, False
            if self._troubled_at < now:
                self._troubled_since = None  # a receipt says more than the delay
        if unsettled:
            self._quiet_since = now
        elif now - self._quiet_since > self._patience and self._troubled_since is None:
            self._owed = False  # it was published after all, or settled by hand
        if not unsettled and not self._owed and self._troubled_since is None:
            self._moved = now
