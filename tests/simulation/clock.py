"""Time that passes only when somebody waits."""

from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from walrelay.errors import Retryable

_MODULES = (
    *("relay.loop", "relay.settling", "observe.stalls", "supervise", "dead_letters.refusal_history", "publish.several"),
    *("source.slot_source", "source.positions", "source.lag"),
    *("sinks.groups", "sinks.kafka.transactions", "sinks.kafka.poison_search"),
)
_SLEEPERS = "source.slot_source", "source.positions"


class Clock:
    """Stands in for `time.monotonic`."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.timers = list[Timer]()

    def __call__(self) -> float:
        return self.now

    def wait(self, seconds: float) -> None:
        """`seconds` pass at once; a timer goes off when it is due."""
        until = self.now + seconds
        while due := [timer for timer in self.timers if timer.due <= until]:
            first = min(due, key=lambda timer: timer.due)
            self.now = max(self.now, first.due)
            first.goes_off()
        self.now = max(self.now, until)

    def timer(self, seconds: float, call: Callable[[], Any]) -> "Timer":
        """As threading.Timer is made."""
        return Timer(self, seconds, call)


class Timer:
    """As threading.Timer has it, whose errors nobody hears."""

    daemon = False

    def __init__(self, clock: Clock, seconds: float, call: Callable[[], Any]) -> None:
        self.due, self._clock, self._call = clock() + seconds, clock, call

    def start(self) -> None:
        self._clock.timers.append(self)

    def cancel(self) -> None:
        if self in self._clock.timers:
            self._clock.timers.remove(self)

    def goes_off(self) -> None:
        self.cancel()
        with suppress(Retryable):
            self._call()


def put_in_place(
    patch: pytest.MonkeyPatch, clock: Clock, random: Random, sleep: Callable[[float], None] | None = None
) -> None:
    """Wherever the product asks for the time, or for chance, itself."""
    for module in _MODULES:
        patch.setattr(f"walrelay.{module}.monotonic", clock)
    for module in _SLEEPERS:
        patch.setattr(f"walrelay.{module}.sleep", sleep or clock.wait)
    patch.setattr("walrelay.supervise.uniform", random.uniform)
