"""How the latencies of each strategy are spread: shapes for the page, all on one logarithmic axis."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from walrelay.lab.bench.results import Strategy
from walrelay.lab.bench.wording import duration, is_ours, label, tick

WIDTH, HEIGHT = 320.0, 64.0  # of the drawing, without the axis below it
_SIDE = 20.0  # half a tick's label
_GAP = 0.6
_CROWDED = 6  # decades
_EXACT = 1e-3  # of a decade: bounds are rounded


class Bar(NamedTuple):
    x: float
    y: float
    width: float
    height: float


class Tick(NamedTuple):
    x: float
    text: str


class Histogram(NamedTuple):
    """The highest bar is as high as the drawing, whatever it counts."""

    label: str
    ours: bool
    bars: Sequence[Bar]
    ticks: Sequence[Tick]
    median: float | None  # its x
    said: str  # for those who cannot see it


class _Bin(NamedTuple):
    low: float
    high: float
    events: int


def histograms(strategies: Sequence[Strategy]) -> list[Histogram]:
    """Of the strategies that have one."""
    found = [(each, bins) for each in strategies if (bins := _bins(each.histogram))]
    if not found:
        return []
    first, last = (math.log10(edge) for edge in _edges([bins for _, bins in found]))

    def place(ms: float) -> float:
        return _SIDE + (math.log10(ms) - first) / (last - first) * (WIDTH - 2 * _SIDE)

    powers = range(math.ceil(first - _EXACT), math.floor(last + _EXACT) + 1, 1 if last - first < _CROWDED else 2)
    ticks = [Tick(place(10.0**power), tick(10.0**power)) for power in powers]
    return [_drawn(strategy, bins, ticks, place) for strategy, bins in found]


def _edges(histograms: Sequence[Sequence[_Bin]]) -> tuple[float, float]:
    """Of the axis; never less than from one decade to the next but one."""
    low = min(bins[0].low for bins in histograms)
    high = max(bins[-1].high for bins in histograms)
    decade = 10.0 ** math.floor(math.log10(low) + _EXACT)
    return (low, high) if high > 100 * low else (decade, max(high, decade * 100))


def _drawn(
    strategy: Strategy, bins: Sequence[_Bin], ticks: Sequence[Tick], place: Callable[[float], float]
) -> Histogram:
    most = max(bins, key=lambda each: each.events)
    bars = []
    for low, high, events in bins:
        tall = events / most.events * HEIGHT
        bars.append(Bar(place(low), HEIGHT - tall, max(0.5, place(high) - place(low) - _GAP), tall))
    known = 0 < strategy.p50_ms < math.inf
    return Histogram(
        label(strategy.name),
        is_ours(strategy.name),
        bars,
        ticks,
        place(strategy.p50_ms) if known else None,
        f"{strategy.events:,} events, most of them between {duration(most.low)} and {duration(most.high)}",
    )


def _bins(histogram: Sequence[tuple[float, int]]) -> list[_Bin]:
    """From the first to the last that holds something. The bounds' ratio says where the first one begins."""
    bounds = [bound for bound, _ in histogram if 0 < bound < math.inf]
    step = bounds[1] / bounds[0] if len(bounds) > 1 else 10**0.1
    bins = [_Bin(bound / step, bound, events) for bound, events in histogram if 0 < bound < math.inf]
    while bins and not bins[-1].events:
        bins.pop()
    return bins[next((place for place, each in enumerate(bins) if each.events), 0) :]
