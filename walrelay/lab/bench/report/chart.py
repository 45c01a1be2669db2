"""The charts of a benchmark: what was found at one look, then what it cost, then what it was measured on."""

from collections.abc import Callable, Sequence

from walrelay.lab.bench.report import findings, surroundings
from walrelay.lab.bench.report.blocks import (
    NARROW,
    Block,
    Panel,
    Row,
    heading,
    label_room,
    panels,
    small_print,
    stacked,
)
from walrelay.lab.bench.report.sheet import Sheet
from walrelay.lab.bench.report.spread import spread
from walrelay.lab.bench.report.wording import UNKNOWN, cpu_ms, is_ours, label, number, size
from walrelay.lab.bench.results import Cost, LatencyResult, Run, Strategy, ThroughputResult

WIDE = 9.2  # inches
PHONE = 4.0


def latency(result: LatencyResult, width: float = WIDE) -> Sheet:
    """A row a strategy, and below what the database paid."""
    strategies = findings.ordered(result)
    rows = [Row(label(each.name), is_ours(each.name)) for each in strategies]
    return stacked(
        f"latency-{'wide' if width >= NARROW else 'phone'}",
        width,
        [
            heading(
                width,
                findings.latency_title(result),
                "Dot: the median. Bar: from there to the 99th percentile. Tick: the slowest event. Logarithmic scale.",
                13,
            ),
            spread(result, width),
            heading(
                width, "What the database paid per 1,000 events, beyond the writer's own work", size=11, before=0.2
            ),
            *_side_by_side(width, rows, _cost_panels(strategies), label_room(rows)),
            small_print(width, *_measured_on(result)),
        ],
    )


def throughput(result: ThroughputResult, width: float = WIDE) -> Sheet:
    """A bar a reader, and below what it took."""
    rows = [Row(label(run.name), is_ours(run.name)) for run in result.runs]
    missing = [Row(label(name), False) for name, _ in result.not_run]
    left = label_room([*rows, *missing])
    speed = Panel(
        "",
        [*(run.events_per_second for run in result.runs), *(None for _ in missing)],
        [*map(_speed, result.runs), *("not run" for _ in missing)],
    )
    return stacked(
        f"throughput-{'wide' if width >= NARROW else 'phone'}",
        width,
        [
            heading(width, findings.throughput_title(result), "Events a second.", 13),
            panels(width, [*rows, *missing], [speed], left, 0.42),
            heading(width, "What it took", size=11, before=0.15),
            *_side_by_side(width, rows, _run_panels(result.runs), left),
            small_print(
                width, *(f"Not run: {label(name)}: {why}." for name, why in result.not_run), *_measured_on(result)
            ),
        ],
    )


def _side_by_side(width: float, rows: Sequence[Row], shown: Sequence[Panel], left: float) -> list[Block]:
    """As far as there is room."""
    columns = len(shown) if width >= NARROW else 1
    return [panels(width, rows, shown[first : first + columns], left) for first in range(0, len(shown), columns)]


def _cost_panels(strategies: Sequence[Strategy]) -> list[Panel]:
    def panel(title: str, value: Callable[[Cost], float | None], text: Callable[[float | None], str]) -> Panel:
        values = [value(each.per_1000) for each in strategies]
        return Panel(title, values, [text(each) for each in values])

    return [
        panel("statements", lambda cost: cost.statements, number),
        panel("dead tuples", lambda cost: cost.dead_tuples, number),
        panel("WAL", lambda cost: cost.wal_bytes, size),
        panel("server CPU", lambda cost: cpu_ms(cost.server_cpu_s), _milliseconds),
    ]


def _run_panels(runs: Sequence[Run]) -> list[Panel]:
    readers = [run.cpu_s_per_million for run in runs]
    walsenders = [run.walsender_cpu_s_per_million for run in runs]
    memory = [run.peak_rss_bytes for run in runs]
    return [
        Panel("reader's CPU, s per million", readers, [number(each) for each in readers]),
        Panel("walsender's CPU, s per million", walsenders, [number(each) for each in walsenders]),
        Panel("peak memory", memory, [size(each) for each in memory]),
    ]


def _speed(run: Run) -> str:
    speed = number(run.events_per_second)
    if run.ratio_to_limit is None:
        return speed
    return f"{speed}  {'the limit' if run.name == 'limit' else f'{run.ratio_to_limit:.2f} of the limit'}"


def _milliseconds(value: float | None) -> str:
    text = number(value)
    return text if text in (UNKNOWN, "0") else f"{text} ms"


def _measured_on(result: LatencyResult | ThroughputResult) -> tuple[str, str]:
    return (
        f"{surroundings.workload(result.workload)}. {surroundings.machine(result.machine)}.",
        f"{surroundings.versions(result.versions)}. {result.date}, {result.command}",
    )
