"""The last hours of a relay in numbers, in memory: small steps for the last hour, larger ones for the last day."""

from array import array
from collections.abc import Mapping, Sequence
from math import isnan, nan
from typing import Literal, NamedTuple

Fold = Literal["mean", "last", "largest"]

SERIES: Mapping[str, Fold] = {
    "published_per_second": "mean",
    "bytes_per_second": "mean",
    "lag_bytes": "largest",
    "lag_seconds": "largest",
    "retained_bytes": "last",
    "safe_bytes": "last",
    "in_flight": "largest",
    "dead_letters": "last",
    "latency_p50": "largest",
    "latency_p99": "largest",
}
"""What is kept, and what becomes of several values within a step."""

_STEPS = (15.0, 240), (60.0, 1440)  # seconds, and how many of them are kept


class HistoryPart(NamedTuple):
    """`at`: Unix times at which steps begin, in order and `step` seconds apart; None where nothing is known."""

    step: float
    at: Sequence[float]
    series: Mapping[str, Sequence[float | None]]


class RelayHistory:
    """One writer, any number of readers."""

    def __init__(self) -> None:
        self._rings = [_Ring(step, count) for step, count in _STEPS]

    def add(self, at: float, values: Mapping[str, float | None]) -> None:
        for ring in self._rings:
            ring.add(at, values)

    def last(self, seconds: float, now: float) -> HistoryPart:
        """The finest steps that reach back so far, or as far as there is anything."""
        ring = next((each for each in self._rings if each.seconds >= seconds), self._rings[-1])
        return ring.last(seconds, now)


class _Ring:
    def __init__(self, step: float, count: int) -> None:
        self._step, self._count, self.seconds = step, count, step * count
        self._values = {name: array("f", [nan]) * count for name in SERIES}
        self._numbers = array("q", [-1]) * count  # of the step that a place has
        self._folded = 0  # values in the newest step

    def add(self, at: float, values: Mapping[str, float | None]) -> None:
        number = int(at // self._step)
        place = number % self._count
        if self._numbers[place] != number:
            for kept in self._values.values():
                kept[place] = nan
            self._numbers[place], self._folded = number, 0
        self._folded += 1
        for name, fold in SERIES.items():
            value = values.get(name)
            if value is not None:
                kept = self._values[name]
                kept[place] = _folded(fold, kept[place], value, self._folded)

    def last(self, seconds: float, now: float) -> HistoryPart:
        newest = int(now // self._step)
        oldest = max(newest - self._count + 1, int((now - seconds) // self._step) + 1)
        known = [number for number in range(oldest, newest + 1) if self._numbers[number % self._count] == number]
        numbers = range(known[0], newest + 1) if known else range(0)
        series = {name: [self._value(kept, number) for number in numbers] for name, kept in self._values.items()}
        return HistoryPart(self._step, [number * self._step for number in numbers], series)

    def _value(self, kept: Sequence[float], number: int) -> float | None:
        place = number % self._count
        value = kept[place]
        return None if self._numbers[place] != number or isnan(value) else float(f"{value:.6g}")


def _folded(fold: Fold, before: float, value: float, count: int) -> float:
    if isnan(before) or fold == "last":
        return value
    return max(before, value) if fold == "largest" else before + (value - before) / count
