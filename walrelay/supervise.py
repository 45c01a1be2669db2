"""Runs a relay again after what can be retried, with back-off and jitter; and several relays side by side. Retryable is
caught here and nowhere else.
"""

import os
from collections.abc import Callable, Mapping
from random import uniform
from threading import Event, Lock, Thread
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


class Retries:
    """Tells of each failure, and how long to wait after it. A cause that was told lately is told as such, until it has
    become lasting.
    """

    def __init__(self, progress: Callable[[], object], observer: Observer, backoff: Backoff) -> None:
        """`progress` returns a value that changes when an attempt got anywhere, which makes the next pause the first
        again.
        """
        self._progress, self._observer, self._backoff = progress, observer, backoff
        self._attempt, self._told, self._told_at = 0, ("", False), 0.0
        self._before: object = None
        self._last, self._same = "", 0

    def begin(self) -> None:
        """An attempt begins."""
        self._before = self._progress()

    def failed(self, error: Retryable) -> float:
        """The attempt ended in that: seconds until the next one."""
        self._attempt = 1 if self._progress() != self._before else self._attempt + 1
        self._same = self._same + 1 if self._attempt > 1 and str(error) == self._last else 1
        self._last = str(error)
        pause = self._backoff.pause(self._attempt, error.retry_within)
        lasting = self._attempt >= _LASTING and not isinstance(error, _BY_CHOICE)
        again = (str(error), lasting) == self._told and monotonic() - self._told_at < _QUIET
        hints = "; ".join(filter(None, [error.hint, _ASK if lasting else ""]))
        count = f"; {self._same} times in a row without progress" if lasting and self._same > 1 else ""
        cause = f"{error}{count}" + (f" (hint: {hints})" if hints else "")
        self._observer.saw(Retrying(cause, self._attempt, pause, lasting, type(error).__name__, again))
        if not again:
            self._told, self._told_at = (str(error), lasting), monotonic()
        return pause


def supervise(
    run: Callable[[], None],
    stop: Callable[[], bool],
    wait: Callable[[float], object],
    observer: Observer,
    retries: Retries,
) -> None:
    """Calls `run` until it returns or raises something that is not Retryable. `wait` waits so many seconds, or until
    `stop` is true.
    """
    only_waited = True
    while not stop():
        retries.begin()
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
            pause = retries.failed(error)
        wait(pause)


class SideBySide:
    """Several relays of one process, each in a thread of its own: what happens to one is nothing to the others.

    A relay that ends in an error stays ended, as one that has a process to itself, and the others go on. While they do,
    nobody sees an exit code, so the error is told again and again. The process ends when none of its relays runs.
    """

    def __init__(
        self,
        relays: Mapping[str, Callable[[], None]],
        stop: Stop,
        ended: Callable[[str, Exception, int], None],
        again: float = _QUIET,
    ) -> None:
        """A relay returns once `stop` is set. `ended` is called with the name of a relay, the error in which it ended,
        and how many others run; while some do, every `again` seconds.
        """
        self._relays, self._stop, self._ended, self._again = relays, stop, ended, again
        self._running, self._lock, self._failed = len(relays), Lock(), False

    def run(self) -> bool:
        """Returns when all have ended: whether each did so in good order. A single relay needs no thread."""
        if len(self._relays) == 1:
            self._keep(*next(iter(self._relays.items())))
            return not self._failed
        threads = [Thread(target=self._keep, args=each, name=each[0]) for each in self._relays.items()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return not self._failed

    def _keep(self, name: str, relay: Callable[[], None]) -> None:
        try:
            relay()
        except Exception as error:
            self._failed = True
            self._leave()
            self._ended(name, error, self._running)
            while not self._stop.wait(self._again):
                self._ended(name, error, self._running)
        else:
            self._leave()

    def _leave(self) -> None:
        """The last one leaves nothing to wait for."""
        with self._lock:
            self._running -= 1
            if not self._running:
                self._stop.set()
