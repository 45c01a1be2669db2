"""From segments to what is reported of each strategy. No I/O."""

from collections.abc import Mapping, Sequence

from walrelay.lab.bench.latency import costs
from walrelay.lab.bench.latency.account import Measured
from walrelay.lab.bench.latency.distribution import bounds, histogram, percentile
from walrelay.lab.bench.results import Cost, Strategy

Rounds = Sequence[Measured]


def strategies(measured: Mapping[str, Rounds], alone: Rounds) -> list[Strategy]:
    """Over all rounds, net of what the writer costs `alone`."""
    longest = max((latency for rounds in measured.values() for latency in _latencies(rounds)), default=0.0)
    return [_strategy(name, rounds, alone, bounds(longest)) for name, rounds in measured.items()]


def per_1000(rounds: Rounds) -> Cost:
    """Events that were committed."""
    events = sum(each.account.committed for each in rounds)
    return costs.scaled(costs.total(each.spent for each in rounds), 1000 / max(1, events))


def cpu_of_each(rounds: Rounds) -> list[float]:
    """Seconds per 1,000 events in each round, as far as they are known."""
    found = (per_1000([each]).server_cpu_s for each in rounds)
    return [seconds for seconds in found if seconds is not None]


def _strategy(name: str, rounds: Rounds, alone: Rounds, bounds: Sequence[float]) -> Strategy:
    latencies = sorted(_latencies(rounds))
    idle, quiet = _idle_minute(rounds), _idle_minute(alone)
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
        per_1000=costs.difference(per_1000(rounds), per_1000(alone)),
        idle_minute=None if idle is None or quiet is None else costs.difference(idle, quiet),
    )


def _latencies(rounds: Rounds) -> list[float]:
    return [latency for each in rounds for latency in each.account.latencies_ms]


def _idle_minute(rounds: Rounds) -> Cost | None:
    """The mean of those that were measured."""
    known = [each.idle_minute for each in rounds if each.idle_minute is not None]
    return costs.scaled(costs.total(known), 1 / len(known)) if known else None
