"""How long a sink goes on alone while PostgreSQL is away."""

from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from threading import Lock
from typing import Any, Protocol


class AnyTimer(Protocol):
    """The part of threading.Timer that is used."""

    daemon: bool

    def start(self) -> None: ...

    def cancel(self) -> None: ...


MakeTimer = Callable[[float, Callable[[], Any]], AnyTimer]


class Holding:
    """How long a sink goes on alone: `close` is called `seconds` after `begin`, on its own thread, unless `end` comes
    first.

    A connection attempt may last for as long as the DSN says, and for each of its hosts. Meanwhile another instance may
    lead and publish what the sink still holds.
    """

    def __init__(self, seconds: float, close: Callable[[], None], timer: MakeTimer) -> None:
        self._seconds, self._close, self._make_timer = seconds, close, timer
        self._lock = Lock()
        self._timer: AnyTimer | None = None

    def begin(self) -> None:
        """A second call does not extend the time."""
        if self._timer is None:
            within = copy_context()  # what the sink logs at its end names the relay, as in this thread
            self._timer = self._make_timer(self._seconds, partial(within.run, self._over))
            self._timer.daemon = True
            self._timer.start()

    def unless_over(self, work: Callable[[], None]) -> None:
        """Does that, unless `close` was called; if it comes due meanwhile, it waits."""
        with self._lock:
            if self._timer is not None:
                work()

    def end(self) -> None:
        """Waits for a `close` that is under way; none comes afterwards."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = None

    def _over(self) -> None:
        with self._lock:
            if self._timer is not None:
                self._close()
