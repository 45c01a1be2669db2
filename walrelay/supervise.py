"""Runs a relay again after what can be retried, with back-off and jitter. The one place where Retryable is caught."""

import os
from collections.abc import Callable
from random import uniform
from threading import Event
from time import monotonic
from typing import NamedTuple

from walrelay.errors import NoRoom, Retryable, StartAnew, Waiting
from walrelay.observe import Noticed, Observer, Retrying

_QUIET = 30.0  # seconds between two lines about the same cause
_LASTING = 3  # failures in a row after which somebody should look
_BY_CHOICE = Waiting, StartAnew, NoRoom
_ASK = "`walrelay doctor` says what is missing"


class Stop(Event):
    """An event with a descriptor that becomes readable, for good, when it is set: to be waited for beside a socket."""

    def __init__(self) -> None:
        super().__init__()
        self._reading, self._writing = os.pipe()

    def set(self) -> None:
        if not self.is_set():
            os.write(self._writing, b"\0")
        super().set()

    def fileno(self) -> int:
        return self._reading

    def __del__(self) -> None:
        os.close(self._reading)
        os.close(self._writing)


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
    `wait` waits so many seconds, or until `stop` is true. A cause is told once, and again after a while and when it has
    become lasting.
    """
    attempt, told, told_at, only_waited = 0, ("", False), 0.0, True
    while not stop():
        before = progress()
        try:
            run()
            return
        except Retryable as error:
            only_waited &= isinstance(error, Waiting)
            if stop() and only_waited:
                return
            if stop():
                observer.saw(Noticed(f"stopped, but not cleanly: {error}"))
                return
            attempt = 1 if progress() != before else attempt + 1
            pause = backoff.pause(attempt, error.retry_within)
            lasting = attempt >= _LASTING and not isinstance(error, _BY_CHOICE)
            if (str(error), lasting) != told or monotonic() - told_at >= _QUIET:
                hints = "; ".join(filter(None, [error.hint, _ASK if lasting else ""]))
                cause = f"{error} (hint: {hints})" if hints else str(error)
                observer.saw(Retrying(cause, attempt, pause, lasting))
                told, told_at = (str(error), lasting), monotonic()
        wait(pause)
