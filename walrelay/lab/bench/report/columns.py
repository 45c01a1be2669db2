"""The tables of the page: texts, and which of them is the best of its column."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from walrelay.lab.bench.report import findings
from walrelay.lab.bench.report.wording import UNKNOWN, cpu_ms, is_ours, label, number, size, times
from walrelay.lab.bench.results import Cost, LatencyResult, Run, Strategy


class Cell(NamedTuple):
    text: str
    kind: str = ""  # best, alarm, good


class Line(NamedTuple):
    label: str
    kind: str  # ours, zero
    cells: Sequence[Cell]


class Table(NamedTuple):
    caption: str
    heads: Sequence[str]
    rows: Sequence[Line]


def latencies(result: LatencyResult) -> Table:
    strategies = findings.ordered(result)
    percentiles = zip(*(each[1:5] for each in strategies), strict=True)
    columns = [_column(values, number, min) for values in percentiles]
    ratios = [Cell("1×" if is_ours(each.name) else times(findings.slower(each, result))) for each in strategies]
    events = [Cell(f"{each.events:,}") for each in strategies]
    broken = [[_count(count) for count in counts] for counts in zip(*map(_broken, strategies), strict=True)]
    heads = ("p50", "p90", "p99", "max", "p50 ratio", "events", "lost", "duplicate", "out of order")
    names = [each.name for each in strategies]
    return Table("", heads, _lines(names, [*columns, ratios, events, *broken]))


def costs(result: LatencyResult) -> list[Table]:
    """Per 1,000 events, and per idle minute where that was measured."""
    strategies = findings.ordered(result)
    names = [each.name for each in strategies]
    heads = ("statements", "WAL", "dead tuples", "CPU ms")
    writer = Line("the writer alone", "zero", [column[0] for column in _costs([result.writer_per_1000])])
    lines = [*_lines(names, _costs([each.per_1000 for each in strategies])), writer]
    tables = [Table("Per 1,000 events", heads, lines)]
    if findings.idle_was_measured(strategies):
        idle = _lines(names, _costs([each.idle_minute for each in strategies]))
        tables.append(Table("Per idle minute", heads, idle))
    return tables


def runs(measured: Sequence[Run]) -> Table:
    columns = [
        _column([run.events_per_second for run in measured], number, max),
        [Cell(UNKNOWN if run.ratio_to_limit is None else f"{run.ratio_to_limit:.2f}") for run in measured],
        _column([run.cpu_s_per_million for run in measured], number, min),
        _column([run.walsender_cpu_s_per_million for run in measured], number, min),
        _column([run.peak_rss_bytes for run in measured], size, min),
    ]
    heads = ("events/s", "of the limit", "reader's CPU, s", "walsender's CPU, s", "peak memory")
    return Table("", heads, _lines([run.name for run in measured], columns))


def _lines(names: Sequence[str], columns: Sequence[Sequence[Cell]]) -> list[Line]:
    return [
        Line(label(name), "ours" if is_ours(name) else "", [column[number] for column in columns])
        for number, name in enumerate(names)
    ]


def _costs(paid: Sequence[Cost | None]) -> list[list[Cell]]:
    def of(value: Callable[[Cost], float | None], text: Callable[[float | None], str]) -> list[Cell]:
        return _column([None if cost is None else value(cost) for cost in paid], text, min)

    return [
        of(lambda cost: cost.statements, number),
        of(lambda cost: cost.wal_bytes, size),
        of(lambda cost: cost.dead_tuples, number),
        of(lambda cost: cpu_ms(cost.server_cpu_s), number),
    ]


def _column(
    values: Sequence[float | None],
    text: Callable[[float | None], str],
    best: Callable[[Sequence[float]], float],
) -> list[Cell]:
    """What reads the same as the best is as good."""
    texts = [text(value) for value in values]
    known = [value for value in values if value is not None and math.isfinite(value)]
    winner = text(best(known)) if len({text(value) for value in known}) > 1 else None
    return [Cell(each, "best" if each == winner else "") for each in texts]


def _broken(strategy: Strategy) -> tuple[int, int, int]:
    return strategy.lost, strategy.duplicates, strategy.out_of_order


def _count(count: int) -> Cell:
    return Cell(f"{count:,}", "alarm" if count else "good")
