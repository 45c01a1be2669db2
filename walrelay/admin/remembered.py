"""One answer for all who ask within a moment: many requests cost the database no more than one."""

from collections.abc import Callable
from threading import Lock
from time import monotonic
from typing import Generic, TypeVar

T = TypeVar("T")

_AFTER_ERROR = 1.0  # seconds


class Remembered(Generic[T]):
    """Asks when the last answer is too old. Who comes while it is asked waits for that answer, an error too."""

    def __init__(
        self, ask: Callable[[], T], keep: Callable[[T], float], clock: Callable[[], float] = monotonic
    ) -> None:
        """`keep`: for how many seconds an answer is good."""
        self._ask, self._keep, self._clock = ask, keep, clock
        self._lock, self._until = Lock(), float("-inf")
        self._answer: T
        self._error: Exception | None = None

    def __call__(self) -> T:
        with self._lock:
            if self._clock() >= self._until:
                self._look()
            if self._error is not None:
                raise self._error.with_traceback(None)
            return self._answer

    def _look(self) -> None:
        try:
            self._answer, self._error = self._ask(), None
            self._until = self._clock() + self._keep(self._answer)
        except Exception as error:
            self._error, self._until = error, self._clock() + _AFTER_ERROR
