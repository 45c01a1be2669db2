"""How names, numbers and results read, the same in the terminal, in charts and on the page."""

import math
import re
from collections.abc import Sequence

from walrelay.lab.bench.results import SINKS, LatencyResult, Run, Strategy, ThroughputResult
from walrelay.lab.brokers.kinds import KINDS

UNKNOWN = "–"

_POLLING = re.compile(r"polling-(\d+(?:\.\d+)?)(ms|s)")
_BEFORE_UNIT = re.compile(r"(?<=\d) (?=m?s\b)")
_OURS = "walrelay"
_LABELS = {
    "exactly-once": "walrelay, exactly once",
    "walrelay-admin": "walrelay, its admin API asked",
    "direct": "produced after COMMIT",
    "polling-backoff": "polling with back-off",
    "polling-notify": "polling on NOTIFY",
    "limit": "pg_recvlogical",
    "null": "walrelay → nothing",
    "null-metrics": "walrelay → nothing, with metrics",
    "mock": "walrelay → mock Kafka",
    "mock-metrics": "walrelay → mock, with metrics",
    "kafka": "walrelay → Kafka",
    "wal2json": "walrelay → mock, wal2json",
    "polling": "polling → mock Kafka",
    **{kind: f"walrelay → {KINDS[kind].title}" for kind in SINKS},
}
_BYTES = (("GB", 2**30), ("MB", 2**20), ("KB", 2**10))


def interval(strategy: str) -> str | None:
    """ "100 ms" for polling-100ms; None for what does not poll."""
    found = _POLLING.fullmatch(strategy)
    return f"{found[1]} {found[2]}" if found else None


def label(name: str) -> str:
    """What people read for a strategy or reader: "polling every 100 ms" for polling-100ms; an unknown name as it is."""
    every = interval(name)
    return f"polling every {every}" if every else _LABELS.get(name, name)


def spoken(strategy: str) -> str:
    """The label as it stands in a sentence."""
    return "polling every second" if strategy == "polling-1s" else label(strategy)


def is_ours(name: str) -> bool:
    """Whether it is walrelay, and not what walrelay is compared with."""
    return label(name).startswith("walrelay")


def duration(ms: float | None) -> str:
    """A duration with its unit: "0.43 ms", "1.4 ms", "55 ms", "2.5 s"."""
    if ms is None or not math.isfinite(ms):
        return UNKNOWN
    if abs(ms) < 999.5:
        return f"{_rounded(ms, 9.95)} ms"
    return f"{_rounded(ms / 1000, 99.95)} s"


def tick(ms: float) -> str:
    """A round latency on an axis: "0.1 ms", "10 s"."""
    return f"{ms / 1000:,.6g} s" if ms >= 999 else f"{ms:.6g} ms"


def number(value: float | None) -> str:
    """For a column whose head has the unit: "0", "0.43", "1.4", "55.2", "2,510"."""
    return UNKNOWN if value is None or not math.isfinite(value) else _rounded(value, 99.95)


def size(value: float | None) -> str:
    """Bytes: "0", "512 B", "1.2 MB"; 1 KB is 1,024 bytes."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    for unit, factor in _BYTES:
        if abs(value) >= factor:
            return f"{_rounded(value / factor, 9.95)} {unit}"
    return f"{value:,.0f} B".replace("-", "−") if round(value) else "0"


def tied(text: str) -> str:
    """No line ends between a number and its unit."""
    return _BEFORE_UNIT.sub("\N{NO-BREAK SPACE}", text)


def times(ratio: float | None) -> str:
    """ "0.8×", "3.2×", "366×"."""
    return UNKNOWN if ratio is None else f"{_rounded(ratio, 9.95)}×"


def cpu_ms(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1000


def _rounded(value: float, whole_from: float) -> str:
    """Without decimals from `whole_from` on, with two below 1, with a true minus sign."""
    if value == 0:
        return "0"
    decimals = 0 if abs(value) >= whole_from else 1 if abs(value) >= 0.995 else 2
    text = f"{value:,.{decimals}f}"
    return "0" if not text.strip("-0.") else text.replace("-", "−")


_USUAL = "polling-1s"

_INTO = {
    **{kind: f"into {KINDS[kind].into}" for kind in SINKS},
    "kafka": "into Kafka",
    "mock": "into librdkafka's mock cluster",
    "null": "into a sink that forgets",
    "wal2json": "into librdkafka's mock cluster with wal2json",
}
"""The reader of walrelay that stands for all of them: the first of these that was measured."""


def ordered(result: LatencyResult) -> list[Strategy]:
    """walrelay first, because all are compared with it; the others as they were measured."""
    return sorted(result.strategies, key=lambda strategy: not is_ours(strategy.name))


def slower(strategy: Strategy, result: LatencyResult) -> str:
    """How many times walrelay's p50 its p50 is: "366×"."""
    ours = _ours(result)
    if ours is None or not (ours.p50_ms > 0 and math.isfinite(strategy.p50_ms)):
        return UNKNOWN
    return "1×" if strategy is ours else times(strategy.p50_ms / ours.p50_ms)


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
    compared = f", {ratio.removesuffix('×')} times as long" if ratio != UNKNOWN else ""
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


def spread(run: Run) -> str:
    """From the slowest round to the fastest: "9,800 to 10,400"; of one round nothing can be said."""
    rounds = run.round_events_per_second
    return f"{number(min(rounds))} to {number(max(rounds))}" if len(rounds) > 1 else UNKNOWN


def limit_of(result: ThroughputResult) -> Run | None:
    """The reader that the others are compared with."""
    return next((run for run in result.runs if run.name == "limit"), None)


def above_the_limit(result: ThroughputResult) -> str:
    """Why somebody can read more than the limit, in a sentence; empty where nobody does."""
    limit = limit_of(result)
    if limit is None or all((run.ratio_to_limit or 0.0) <= 1.0 for run in result.runs):
        return ""
    return (
        f"A ratio above 1 is possible because {label(limit.name)} sleeps until each message comes, and waking it costs"
        " the walsender more than sending to a reader that is behind."
    )


WORKER_HEADS = ("CPU ms per 1,000", "idle % of a core", "peak memory", "first event s")


def worker(strategy: Strategy) -> list[str]:
    """What the process itself takes that carries the events, under WORKER_HEADS."""
    idle = strategy.idle_minute and strategy.idle_minute.worker_cpu_s
    return [
        number(cpu_ms(strategy.per_1000.worker_cpu_s)),
        number(None if idle is None else idle / 60 * 100),
        size(strategy.worker_rss_bytes),
        number(strategy.first_event_s),
    ]


def idle_was_measured(strategies: Sequence[Strategy]) -> bool:
    return any(strategy.idle_minute is not None for strategy in strategies)


def faults(strategy: Strategy) -> str:
    """ "3 lost, 1 duplicate": empty when it was sound."""
    duplicates = "duplicate" if strategy.duplicates == 1 else "duplicates"
    counted = ((strategy.lost, "lost"), (strategy.duplicates, duplicates), (strategy.out_of_order, "out of order"))
    return ", ".join(f"{count:,} {what}" for count, what in counted if count)


def _ours(result: LatencyResult) -> Strategy | None:
    return next((strategy for strategy in result.strategies if strategy.name == _OURS), None)


def _others(result: LatencyResult) -> list[Strategy]:
    """Other ways from an outbox to a broker."""
    return [each for each in result.strategies if not is_ours(each.name) and each.name != "direct"]


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
    limit, ratio = limit_of(result), run.ratio_to_limit
    if ratio is None or limit is None:
        return ""
    return f", {ratio:.2f} {'of' if ratio < 1 else 'times'} {phrase.format(label(limit.name))}"
