"""Whether a comparison may be believed, and whether it shows what it should: ratios within it, never times. No I/O."""

from collections.abc import Iterator

from walrelay.lab.bench.results import LatencyResult, Strategy

OURS, COMPARED = "walrelay", "polling-100ms"


def complaints(result: LatencyResult, ratio: float | None) -> list[str]:
    """`ratio`: how many times walrelay's median must be below that of polling every 100 ms; None: it need not be."""
    found = [complaint for strategy in result.strategies for complaint in _unsound(strategy)]
    medians = {strategy.name: strategy.p50_ms for strategy in result.strategies}
    if ratio is not None and not medians[OURS] * ratio <= medians[COMPARED]:
        reached = medians[COMPARED] / medians[OURS]
        found.append(f"{OURS}'s median is {reached:.1f} times below that of {COMPARED}, and not {ratio:g} times")
    return found


def _unsound(strategy: Strategy) -> Iterator[str]:
    for count, what in (
        (strategy.lost, "lost"),
        (strategy.duplicates, "repeated"),
        (strategy.out_of_order, "out of order"),
    ):
        if count:
            yield f"{strategy.name}: {count:,} of {strategy.events:,} events {what}"
