"""What a result says, in sentences."""

import math
from collections.abc import Sequence

from walrelay.lab.bench.report.wording import cpu_ms, duration, is_ours, label, number, spoken, times
from walrelay.lab.bench.results import LatencyResult, Run, Strategy, ThroughputResult

_USUAL = "polling-1s"

_INTO = {
    "kafka": "into Kafka",
    "mock": "into librdkafka's mock cluster",
    "null": "into a sink that forgets",
    "wal2json": "into librdkafka's mock cluster with wal2json",
}
"""Of walrelay's readers the one that stands for it: the first of these that was measured."""


def ordered(result: LatencyResult) -> list[Strategy]:
    """walrelay first, because all are compared with it; the others as they were measured."""
    return sorted(result.strategies, key=lambda strategy: not is_ours(strategy.name))


def slower(strategy: Strategy, result: LatencyResult) -> float | None:
    """Its p50 in p50s of walrelay; None for walrelay itself, and where either is not known."""
    ours = _ours(result)
    if ours is None or strategy is ours or not (ours.p50_ms > 0 and math.isfinite(strategy.p50_ms)):
        return None
    return strategy.p50_ms / ours.p50_ms


def latency_title(result: LatencyResult) -> str:
    """The finding in few words, above the chart."""
    compared = [each for each in (_ours(result), _opponent(result)) if each is not None]
    medians = ", ".join(f"{spoken(each.name)} {duration(each.p50_ms)}" for each in compared)
    return f"COMMIT to consumer: {medians or 'nothing was measured'}"


def latency_headline(result: LatencyResult) -> str:
    """The finding in one sentence."""
    ours, opponent = _ours(result), _opponent(result)
    if ours is None:
        return "walrelay was not measured in this run."
    if opponent is None:
        return f"Half of the events reached the consumer within {duration(ours.p50_ms)} of COMMIT."
    ratio = slower(opponent, result)
    compared = f", {times(ratio).removesuffix('×')} times as long" if ratio is not None else ""
    return (
        f"Half of the events reached the consumer within {duration(ours.p50_ms)} of COMMIT;"
        f" {spoken(opponent.name)} took {duration(opponent.p50_ms)}{compared}."
    )


def nearest(result: LatencyResult) -> str:
    """The other strategy that does best, in a sentence; empty if the headline names it already."""
    best, opponent = _fastest(_others(result)), _opponent(result)
    if best is None or best is opponent or not math.isfinite(best.p50_ms):
        return ""
    return f"The fastest of the others, {spoken(best.name)}, took {duration(best.p50_ms)}."


def noise(result: LatencyResult) -> str:
    """How far the CPU of one and the same work differs, in a sentence; empty where that was measured once only."""
    if len(result.writer_cpu_s) < 2:
        return ""
    least, most = (number(cpu_ms(seconds)) for seconds in (min(result.writer_cpu_s), max(result.writer_cpu_s)))
    return f"The writer alone took {least} to {most} ms of CPU from round to round: smaller differences say nothing."


def throughput_title(result: ThroughputResult) -> str:
    ours = _standing_for_walrelay(result)
    if ours is None:
        return "Draining a backlog"
    share = _of_limit(ours, result, "{}")
    return f"Draining a backlog: {label(ours.name)} {number(ours.events_per_second)} events/s{share}"


def throughput_headline(result: ThroughputResult) -> str:
    ours = _standing_for_walrelay(result)
    if ours is None:
        return "walrelay was not measured in this run."
    drained = f"walrelay drained the backlog {_INTO[ours.name]} at {number(ours.events_per_second)} events a second"
    return f"{drained}{_of_limit(ours, result, 'what {} reads')}."


def limit_of(result: ThroughputResult) -> Run | None:
    """The reader that the others are compared with."""
    return next((run for run in result.runs if run.name == "limit"), None)


def above_the_limit(result: ThroughputResult) -> str:
    """Why somebody can read more than the limit, in a sentence; empty where nobody does."""
    limit = limit_of(result)
    if limit is None or all((run.ratio_to_limit or 0.0) <= 1.0 for run in result.runs):
        return ""
    return (
        f"Above 1: {label(limit.name)} waits for each message, and to wake it up costs the walsender more than to send"
        " to a reader that is behind."
    )


def idle_was_measured(strategies: Sequence[Strategy]) -> bool:
    return any(strategy.idle_minute is not None for strategy in strategies)


def faults(strategy: Strategy) -> str:
    """ "3 lost, 1 duplicate": empty when it was sound."""
    duplicates = "duplicate" if strategy.duplicates == 1 else "duplicates"
    counted = ((strategy.lost, "lost"), (strategy.duplicates, duplicates), (strategy.out_of_order, "out of order"))
    return ", ".join(f"{count:,} {what}" for count, what in counted if count)


def _ours(result: LatencyResult) -> Strategy | None:
    return next((strategy for strategy in result.strategies if is_ours(strategy.name)), None)


def _others(result: LatencyResult) -> list[Strategy]:
    return [strategy for strategy in result.strategies if not is_ours(strategy.name)]


def _opponent(result: LatencyResult) -> Strategy | None:
    """What most workers do; where that was not measured, the fastest of the others."""
    usual = (strategy for strategy in _others(result) if strategy.name == _USUAL)
    return next(usual, _fastest(_others(result)))


def _fastest(strategies: Sequence[Strategy]) -> Strategy | None:
    known = (strategy for strategy in strategies if math.isfinite(strategy.p50_ms))
    return min(known, key=lambda strategy: strategy.p50_ms, default=None)


def _standing_for_walrelay(result: ThroughputResult) -> Run | None:
    measured = {run.name: run for run in result.runs}
    return next((measured[name] for name in _INTO if name in measured), None)


def _of_limit(run: Run, result: ThroughputResult, phrase: str) -> str:
    limit = limit_of(result)
    if run.ratio_to_limit is None or limit is None:
        return ""
    return (
        f", {run.ratio_to_limit:.2f} {'of' if run.ratio_to_limit < 1 else 'times'} {phrase.format(label(limit.name))}"
    )
