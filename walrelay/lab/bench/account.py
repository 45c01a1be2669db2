"""What was committed in a benchmark against what arrived, and what it cost: from segments to the reported result. No
I/O.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from statistics import median
from typing import NamedTuple

from walrelay.lab.bench.results import Cost, LatencyResult, MaxRatio, Strategy

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


NOTHING = Cost(0.0, 0.0, 0.0, 0.0, 0.0)
_DIGITS = 6


def difference(minuend: Cost, subtrahend: Cost) -> Cost:
    """Never cut off at zero: a negative one tells how far the noise goes."""
    return _each(lambda one, other: round(one - other, _DIGITS), minuend, subtrahend)


def total(costs: Iterable[Cost]) -> Cost:
    return reduce(lambda one, other: _each(lambda a, b: a + b, one, other), costs, NOTHING)


def scaled(cost: Cost, factor: float) -> Cost:
    return _each(lambda value, _: round(value * factor, _DIGITS), cost, NOTHING)


def _each(operation: Callable[[float, float], float], one: Cost, other: Cost) -> Cost:
    return Cost(*(None if a is None or b is None else operation(a, b) for a, b in zip(one, other, strict=True)))


class CommittedEvent(NamedTuple):
    """COMMIT returned, or would have if the writer had begun in time. Events of the warm-up have negative numbers."""

    segment: int
    number: int
    at_ns: int


class Received(NamedTuple):
    """The consumer got a message."""

    segment: int
    number: int
    partition: int
    offset: int
    at_ns: int


class LatencyAccount:
    """The account of one segment; its events are numbered in commit order. Either side may be heard of first."""

    def __init__(self, expected: int) -> None:
        self.expected = expected  # events that the writer will commit
        self.duplicates = self.out_of_order = 0
        self.warming = self.warm = 0  # events of the warm-up that were committed, that arrived
        self.first_ns: int | None = None  # when the first event arrived
        self._committed: dict[int, int] = {}
        self._received: dict[int, int] = {}
        self._reached: dict[int, int] = {}  # by partition, the latest event that arrived

    def commit(self, event: CommittedEvent) -> None:
        if event.number < 0:
            self.warming += 1
        else:
            self._committed[event.number] = event.at_ns

    def receive(self, event: Received) -> None:
        """A repetition counts as that, not also as out of order."""
        if event.number in self._received:
            self.duplicates += 1
            return
        self._received[event.number] = event.at_ns
        self.first_ns = event.at_ns if self.first_ns is None else self.first_ns
        self.warm += event.number < 0
        reached = self._reached.get(event.partition, event.number)
        self.out_of_order += event.number < reached
        self._reached[event.partition] = max(event.number, reached)

    @property
    def committed(self) -> int:
        return len(self._committed)

    @property
    def received(self) -> int:
        return len(self._received) - self.warm

    @property
    def written(self) -> bool:
        return self.committed >= self.expected

    @property
    def complete(self) -> bool:
        return self.written and self.received >= self.committed

    @property
    def lost(self) -> int:
        return len(self._committed.keys() - self._received.keys())

    @property
    def latencies_ms(self) -> list[float]:
        """In the order of the commits. What arrived before the writer knew that it was committed took no time."""
        pairs = ((at_ns, self._received.get(number)) for number, at_ns in self._committed.items())
        return [max(0, received - at_ns) / 1e6 for at_ns, received in pairs if received is not None]


class Measured(NamedTuple):
    """What came of a segment. `spent` is for its events alone; `idle_minute` None: not measured."""

    account: LatencyAccount
    spent: Cost
    idle_minute: Cost | None
    worker_rss_bytes: int | None = None
    first_event_s: float | None = None


Rounds = Sequence[Measured]


def strategies(measured: Mapping[str, Rounds], alone: Rounds) -> list[Strategy]:
    """Over all rounds, net of what the writer costs `alone`."""
    longest = max((latency for rounds in measured.values() for latency in _latencies(rounds)), default=0.0)
    return [_strategy(name, rounds, alone, bounds(longest)) for name, rounds in measured.items()]


def per_1000(rounds: Rounds) -> Cost:
    """Events that were committed."""
    events = sum(each.account.committed for each in rounds)
    return scaled(total(each.spent for each in rounds), 1000 / max(1, events))


def cpu_of_each(rounds: Rounds) -> list[float]:
    """Seconds per 1,000 events in each round, as far as they are known."""
    found = (per_1000([each]).server_cpu_s for each in rounds)
    return [seconds for seconds in found if seconds is not None]


def _strategy(name: str, rounds: Rounds, alone: Rounds, bounds: Sequence[float]) -> Strategy:
    latencies = sorted(_latencies(rounds))
    idle, quiet = _idle_minute(rounds), _idle_minute(alone)
    firsts = [round(each.first_event_s, 3) for each in rounds if each.first_event_s is not None]
    p50, p90, p99, most = (round(percentile(latencies, percent), 3) for percent in (50, 90, 99, 100))
    return Strategy(
        name,
        p50,
        p90,
        p99,
        most,
        histogram=histogram(latencies, bounds),
        events=sum(each.account.committed for each in rounds),
        lost=sum(each.account.lost for each in rounds),
        duplicates=sum(each.account.duplicates for each in rounds),
        out_of_order=sum(each.account.out_of_order for each in rounds),
        per_1000=difference(per_1000(rounds), per_1000(alone)),
        idle_minute=None if idle is None or quiet is None else difference(idle, quiet),
        worker_rss_bytes=max((each.worker_rss_bytes for each in rounds if each.worker_rss_bytes), default=None),
        first_event_s=median(firsts) if firsts else None,
        round_p50_ms=[round(percentile(sorted(each.account.latencies_ms), 50), 3) for each in rounds],
    )


def _latencies(rounds: Rounds) -> list[float]:
    return [latency for each in rounds for latency in each.account.latencies_ms]


def _idle_minute(rounds: Rounds) -> Cost | None:
    """The mean of those that were measured."""
    known = [each.idle_minute for each in rounds if each.idle_minute is not None]
    return scaled(total(known), 1 / len(known)) if known else None


def complaints(result: LatencyResult, ratios: Iterable[MaxRatio]) -> list[str]:
    """What was lost, repeated or out of order, and which median is too many times another."""
    medians = {strategy.name: strategy.round_p50_ms for strategy in result.strategies}
    found = [complaint for strategy in result.strategies for complaint in _unsound(strategy)]
    return [*found, *(complaint for ratio in ratios for complaint in _exceeded(ratio, medians))]


def _exceeded(ratio: MaxRatio, medians: Mapping[str, Sequence[float]]) -> Iterator[str]:
    """The median of the rounds' ratios: who was disturbed in one round alone is not blamed for it."""
    if missing := [name for name in (ratio.slower, ratio.faster) if name not in medians]:
        yield f"{' and '.join(missing)} cannot be compared: not measured"
        return
    pairs = zip(medians[ratio.slower], medians[ratio.faster], strict=True)
    reached = median(slower / faster if faster else math.nan for slower, faster in pairs)
    if not reached <= ratio.times:
        most = f"at most {ratio.times:g} times were asked for"
        yield f"the p50 of {ratio.slower} is {reached:.2f} times that of {ratio.faster}; {most}"


def _unsound(strategy: Strategy) -> Iterator[str]:
    for count, what in (
        (strategy.lost, "lost"),
        (strategy.duplicates, "repeated"),
        (strategy.out_of_order, "out of order"),
    ):
        if count:
            yield f"{strategy.name}: {count:,} of {strategy.events:,} events {what}"
