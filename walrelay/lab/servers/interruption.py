"""Ctrl-C, SIGTERM and a closed terminal as one exception, at moments when it does no harm."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Self

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(BaseException):
    """Raised in the main thread by the first of the signals; later ones must not disturb the tidying up."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_code = 128 + number  # as a shell reports it


class Interruption:
    """While it is entered, a signal raises Interrupted: at once, or at the end of the block that holds it off."""

    def __init__(self) -> None:
        self._held = self._over = False
        self._waiting: int | None = None

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._asked) for number in _SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)

    @contextmanager
    def held_off(self) -> Iterator[None]:
        """For what must be whole: a process that was started and is not written down would be left behind."""
        self._held = True
        try:
            yield
        finally:
            self._held = False
        if self._waiting is not None:
            self._raise(self._waiting)

    def end(self) -> None:
        """From now on signals are ignored: what is going on is the tidying up that they ask for."""
        self._over = True

    def _asked(self, number: int, frame: FrameType | None) -> None:
        if self._over:
            return
        if self._held:
            self._waiting = number
            return
        self._raise(number)

    def _raise(self, number: int) -> None:
        self.end()
        raise Interrupted(number)
