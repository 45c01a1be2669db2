"""Runs a relay again after what can be retried, with back-off and jitter. The one place where Retryable is caught."""

from collections.abc import Callable
from random import uniform
from time import monotonic
from typing import NamedTuple

from walrelay.errors import Retryable
from walrelay.observe import Observer

_QUIET = 30.0  # seconds between two lines about the same cause


class Backoff(NamedTuple):
    """Seconds: the first pause and the longest; each is doubled, then shortened by up to half at random."""

    first: float = 0.2
    longest: float = 30.0

    def pause(self, attempt: int, within: float | None) -> float:
        """The pause before the try after `attempt` failures in a row (1 or more)."""
        longest = min(self.longest, within or self.longest)
        return float(uniform(0.5, 1.0) * min(self.first * 2 ** min(attempt - 1, 30), longest))


def supervise(
    run: Callable[[], None],
    progress: Callable[[], object],
    stop: Callable[[], bool],
    wait: Callable[[float], object],
    observer: Observer,
    backoff: Backoff,
) -> None:
    """Calls `run` until it returns or raises something that is not Retryable.

    `progress` returns a value that changes when a run got anywhere, which makes the next pause the first again;
    `wait` waits so many seconds, or until `stop` is true. A cause is told once, and again after a while.
    """
    attempt, told, told_at = 0, "", 0.0
    while not stop():
        before = progress()
        try:
            run()
            return
        except Retryable as error:
            if stop():
                observer.noticed(f"stopped, but not in good order: {error}")
                return
            attempt = 1 if progress() != before else attempt + 1
            pause = backoff.pause(attempt, error.retry_within)
            cause = str(error)
            if cause != told or monotonic() - told_at >= _QUIET:
                observer.retrying(f"{cause} (hint: {error.hint})" if error.hint else cause, attempt, pause)
                told, told_at = cause, monotonic()
        wait(pause)
