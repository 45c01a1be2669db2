"""The charts of a benchmark: the result at one look, what it cost, where it was measured."""

import math
from collections.abc import Callable, Sequence

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from walrelay.lab.bench import conditions, wording
from walrelay.lab.bench.drawing import (
    ACCENT,
    ACCENT_LIGHT,
    ALARM,
    GREY,
    HEAD,
    INK,
    NEUTRAL,
    NEUTRAL_LIGHT,
    PHONE,
    STYLE,
    WIDE,
    WIDE_ROW,
    ChartPart,
    Panel,
    draw_bars,
    in_decades,
    laid_out,
    name_rows,
    side_by_side,
    stacked,
    wrapped,
)
from walrelay.lab.bench.results import LatencyResult, Run, Strategy, ThroughputResult
from walrelay.lab.bench.wording import UNKNOWN, cpu_ms, duration, is_ours, label, number, size

_COLUMNS = (1.1, 1.22, 1.36)  # of the axes' width: p99, max, p50 in walrelay's
_HOW = "Dot: the median. Bar: from there to the 99th percentile. Tick: the slowest event. Logarithmic scale."


def latency(result: LatencyResult, *, phone: bool = False) -> Figure:
    """A row a strategy, and below what the database paid."""
    strategies = wording.ordered(result)
    spread = ChartPart(
        HEAD + 0.4 + WIDE_ROW * len(strategies),
        wording.latency_title(result),
        lambda place: _spread(place.subplots(), strategies, result, phone=phone),
    )
    title = "What the database paid per 1,000 events, beyond the writer's own work"
    paid = side_by_side(title, [each.name for each in strategies], _cost_panels(strategies), phone=phone)
    return stacked([spread, paid], _measured_on(result), phone=phone)


def throughput(result: ThroughputResult, *, phone: bool = False) -> Figure:
    """A bar a reader, and below what it took."""
    names, missing = [run.name for run in result.runs], [name for name, _ in result.not_run]
    speed = Panel(
        "Events a second",
        [*(run.events_per_second for run in result.runs), *(None for _ in missing)],
        [
            *(_speed(run, phone=phone) for run in result.runs),
            *("not run" for _ in missing),
        ],
    )
    drained = ChartPart(
        HEAD + WIDE_ROW * len([*names, *missing]),
        wording.throughput_title(result),
        lambda place: draw_bars(place.subplots(), [*names, *missing], speed),
    )
    took = side_by_side("What it took", names, _run_panels(result.runs), phone=phone)
    not_run = [f"Not run: {label(name)}: {why}." for name, why in result.not_run]
    return stacked([drained, took], [*not_run, *_measured_on(result)], phone=phone)


def histograms(result: LatencyResult, *, phone: bool = False) -> Figure | None:
    """How the latencies of each strategy are spread, all on one logarithmic axis; None if nothing arrived."""
    shown = [each for each in wording.ordered(result) if any(events for _, events in each.histogram)]
    if not shown:
        return None
    columns = 1 if phone else 3
    rows = math.ceil(len(shown) / columns)
    with rc_context(STYLE):
        figure = Figure(figsize=(PHONE if phone else WIDE, 0.3 + 1.2 * rows), layout="constrained")
        every = list(figure.subplots(rows, columns, sharex=True, squeeze=False).flat)
        for strategy, axes in zip(shown, every, strict=False):
            _histogram(axes, strategy)
        for axes in every[len(shown) :]:
            axes.set_axis_off()
        return laid_out(figure)


def _spread(axes: Axes, strategies: Sequence[Strategy], result: LatencyResult, *, phone: bool) -> None:
    """Beside a row its numbers, for which a phone has no room: there they are below the name."""
    names = [each.name for each in strategies]
    below = [wording.faults(each) or (_slowest(each) if phone else "") for each in strategies]
    name_rows(axes, names, below)
    for text, each in zip(axes.get_yticklabels(), strategies, strict=True):
        if not each.sound:
            text.set_color(ALARM)
    low, high = _range(strategies, room=20 if phone else 4)
    axes.set(xscale="log", xlim=(low, high))
    axes.set_xlabel(wrapped(_HOW, 2.2 if phone else WIDE, 8.5), size=8.5, color=GREY, loc="left")
    axes.spines.left.set_visible(False)
    in_decades(axes, 4 if phone else 7)
    for row, each in enumerate(strategies):
        _row(axes, each, row, low)
    if phone:
        return
    for x, head in zip(_COLUMNS, ("p99", "max", "p50 ratio"), strict=True):
        axes.text(x, 1.0, head, color=GREY, size=8.5, ha="right", va="bottom", transform=axes.transAxes)
    for row, each in enumerate(strategies):
        shown = duration(each.p99_ms), duration(each.max_ms), wording.slower(each, result)
        for x, said in zip(_COLUMNS, shown, strict=True):
            colour = ACCENT if is_ours(each.name) else INK
            axes.text(x, row, said, color=colour, size=9, ha="right", va="center", transform=axes.get_yaxis_transform())


def _slowest(strategy: Strategy) -> str:
    return f"p99 {duration(strategy.p99_ms)}, max {duration(strategy.max_ms)}"


def _row(axes: Axes, strategy: Strategy, row: int, low: float) -> None:
    if not all(map(math.isfinite, strategy[1:5])):
        axes.text(low, row, "nothing arrived", size=9, color=ALARM, va="center")
        return
    half, _, most, slowest = (max(ms, low) for ms in strategy[1:5])
    strong, light = (ACCENT, ACCENT_LIGHT) if is_ours(strategy.name) else (NEUTRAL, NEUTRAL_LIGHT)
    axes.plot([half, slowest], [row, row], color=light, linewidth=1.2)
    axes.plot([half, most], [row, row], color=light, linewidth=8, solid_capstyle="butt")
    axes.plot([slowest], [row], "|", markersize=9, markeredgewidth=1.4, color=strong)
    axes.plot([half], [row], "o", markersize=8, color=strong, markeredgecolor="white")
    axes.annotate(
        duration(strategy.p50_ms),
        (half, row),
        xytext=(-8, 0),
        textcoords="offset points",
        ha="right",
        va="center",
        weight="bold",
        color=ACCENT if is_ours(strategy.name) else INK,
    )


def _range(strategies: Sequence[Strategy], room: float) -> tuple[float, float]:
    """From a decade with room for the first label, so many times before it, to a little beyond what was slowest."""
    known = [ms for each in strategies for ms in each[1:5] if isinstance(ms, float) and 0 < ms < math.inf]
    low = 10.0 ** math.floor(math.log10(min(known, default=1.0) / room))
    return low, max([*known, low * 100]) * 1.25


def _histogram(axes: Axes, strategy: Strategy) -> None:
    """The bounds' ratio says where the first bucket begins."""
    ours = is_ours(strategy.name)
    bounds, events = zip(*strategy.histogram, strict=True)
    step = bounds[1] / bounds[0] if len(bounds) > 1 else 10**0.1
    edges = [bounds[0] / step, *bounds]
    full = [place for place, count in enumerate(events) if count]
    axes.stairs(
        events[full[0] : full[-1] + 1],
        edges[full[0] : full[-1] + 2],
        fill=True,
        color=ACCENT if ours else NEUTRAL_LIGHT,
    )
    axes.axvline(strategy.p50_ms, color=INK, linestyle=":", linewidth=1.2)
    axes.set(xscale="log", yticks=[])
    axes.spines.left.set_visible(False)
    axes.spines.bottom.set_visible(True)
    axes.tick_params(labelbottom=True)
    axes.set_title(label(strategy.name), color=ACCENT if ours else INK, weight="bold" if ours else "normal")
    in_decades(axes)


def _cost_panels(strategies: Sequence[Strategy]) -> list[Panel]:
    paid = [each.per_1000 for each in strategies]
    return [
        _panel("statements", [cost.statements for cost in paid], number),
        _panel("dead tuples", [cost.dead_tuples for cost in paid], number),
        _panel("WAL", [cost.wal_bytes for cost in paid], size),
        _panel("server CPU", [cpu_ms(cost.server_cpu_s) for cost in paid], _milliseconds),
    ]


def _run_panels(runs: Sequence[Run]) -> list[Panel]:
    return [
        _panel("reader's CPU, s per million", [run.cpu_s_per_million for run in runs], number),
        _panel("walsender's CPU, s per million", [run.walsender_cpu_s_per_million for run in runs], number),
        _panel("peak memory", [run.peak_rss_bytes for run in runs], size),
    ]


def _panel(title: str, values: Sequence[float | None], text: Callable[[float | None], str]) -> Panel:
    return Panel(title, values, [text(value) for value in values])


def _speed(run: Run, *, phone: bool) -> str:
    speed = number(run.events_per_second)
    if phone or run.ratio_to_limit is None:
        return speed
    return f"{speed}  {'the limit' if run.name == 'limit' else f'{run.ratio_to_limit:.2f} of the limit'}"


def _milliseconds(value: float | None) -> str:
    text = number(value)
    return text if text in (UNKNOWN, "0") else f"{text} ms"


def _measured_on(result: LatencyResult | ThroughputResult) -> tuple[str, str]:
    return (
        f"{conditions.workload(result.workload)}. {conditions.machine(result.machine)}.",
        f"{conditions.versions(result.versions)}. {result.date}, {result.command}",
    )
