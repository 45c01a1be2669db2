"""A sink that goes on alone for a moment: how long, whatever the relay's thread is waiting for."""

from collections.abc import Callable
from threading import Lock, Timer
from typing import Any, Protocol


class AnyTimer(Protocol):
    """As threading.Timer has it."""

    daemon: bool

    def start(self) -> None: ...

    def cancel(self) -> None: ...


MakeTimer = Callable[[float, Callable[[], Any]], AnyTimer]


class Holding:
    """Lets go by itself `seconds` after `begin`, on a thread of its own, unless `end` comes first.

    A connection attempt may last for as long as the DSN says, and for each of its hosts; meanwhile another instance may
    lead and publish what the sink still holds.
    """

    def __init__(self, seconds: float, let_go: Callable[[], None], timer: MakeTimer = Timer) -> None:
        self._seconds, self._let_go, self._make_timer = seconds, let_go, timer
        self._lock = Lock()
        self._timer: AnyTimer | None = None

    def begin(self) -> None:
        """From now on; one that began before goes on as it is."""
        if self._timer is None:
            self._timer = self._make_timer(self._seconds, self._over)
            self._timer.daemon = True
            self._timer.start()

    def end(self) -> None:
        """Returns when it has let go, if it does; it does not afterwards."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = None

    def _over(self) -> None:
        with self._lock:
            if self._timer is not None:
                self._let_go()
