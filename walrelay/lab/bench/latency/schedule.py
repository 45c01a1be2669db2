"""When the writer commits: fixed beforehand, so that a stall cannot hide itself. No I/O."""

import random
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate


def schedule(mode: str, rate: float, seconds: float, seed: int) -> Sequence[float]:
    """Seconds from the beginning to each commit. As many in every mode; the same ones for the same seed."""
    return MODES[mode](rate, max(1, round(rate * seconds)), random.Random(seed))


def _steady(rate: float, count: int, chance: random.Random) -> list[float]:
    """One in each slot, at a random moment of it: in time with a poller's interval, every event would wait as long."""
    return [(number + chance.random()) / rate for number in range(count)]


def _burst(rate: float, count: int, chance: random.Random) -> list[float]:
    """Once a second all of that second's at the same time: one after the other, as fast as the writer can."""
    size = max(1, round(rate))
    return [number // size * (size / rate) for number in range(count)]


def _poisson(rate: float, count: int, chance: random.Random) -> list[float]:
    """Independent of each other, as visitors are."""
    return list(accumulate(chance.expovariate(rate) for _ in range(count)))


MODES: Mapping[str, Callable[[float, int, random.Random], list[float]]] = {
    "steady": _steady,
    "burst": _burst,
    "poisson": _poisson,
}
