"""Percentiles and histograms of latencies in milliseconds. No I/O."""

import math
from bisect import bisect_left
from collections.abc import Sequence

_FIRST = 0.1  # ms, the upper bound of the first bucket
_BUCKETS = 10  # to a decade


def percentile(ordered: Sequence[float], percent: float) -> float:
    """By the nearest rank: one that was measured. NaN where nothing was."""
    if not ordered:
        return math.nan
    return ordered[max(1, math.ceil(len(ordered) * percent / 100)) - 1]


def bounds(longest: float) -> list[float]:
    """Upper bounds of buckets, evenly spaced on a log axis; the last is not below `longest`."""
    last = max(0, math.ceil(math.log10(longest / _FIRST) * _BUCKETS)) if longest > 0 else 0
    found = [_bound(step) for step in range(last + 1)]
    return found if found[-1] >= longest else [*found, _bound(last + 1)]


def histogram(latencies: Sequence[float], bounds: Sequence[float]) -> list[tuple[float, int]]:
    """How many are in each bucket: up to its bound, and above the one before."""
    counts = [0] * len(bounds)
    for latency in latencies:
        counts[bisect_left(bounds, latency)] += 1
    return list(zip(bounds, counts, strict=True))


def _bound(step: int) -> float:
    return float(f"{_FIRST * 10 ** (step / _BUCKETS):.4g}")
