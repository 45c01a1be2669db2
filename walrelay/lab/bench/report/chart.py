"""The charts of a benchmark: what was found at one look, then what it cost, then what it was measured on."""

import math
from collections.abc import Callable, Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from walrelay.lab.bench import wording
from walrelay.lab.bench.report.sheet import (
    ACCENT,
    ACCENT_LIGHT,
    ALARM,
    FAINT,
    GREY,
    INK,
    MARGIN,
    NARROW,
    NEUTRAL,
    NEUTRAL_LIGHT,
    Block,
    Panel,
    Row,
    Sheet,
    heading,
    label_room,
    labels,
    panels,
    small_print,
    stacked,
)
from walrelay.lab.bench.results import Cost, LatencyResult, Run, Strategy, ThroughputResult
from walrelay.lab.bench.wording import UNKNOWN, cpu_ms, duration, is_ours, label, number, size, tick, times

_ROW = 0.44
_NARROW_ROW = 0.62
_COLUMNS = (0.72, 0.78, 0.98)  # inches: p99, max, p50 in walrelay's
_AXIS = 0.36
_NEAR = 4


def spread(result: LatencyResult, width: float) -> Block:
    """Narrow ones say less beside the rows, and say it above them."""
    strategies = wording.ordered(result)
    rows = [Row(label(each.name), is_ours(each.name)) for each in strategies]
    if width < NARROW:
        return _narrow(strategies, rows, width)
    left, right = label_room(rows), sum(_COLUMNS)

    def draw(sheet: Sheet, at: float) -> None:
        labels(sheet, at + 0.2, rows, _ROW)
        axes = sheet.axes(MARGIN + left, at + 0.2, width - 2 * MARGIN - left - right, len(rows) * _ROW)
        _draw(axes, strategies, 0.5)
        _columns(sheet, at, result, strategies)

    return Block(0.2 + len(rows) * _ROW + _AXIS, draw)


def _narrow(strategies: Sequence[Strategy], rows: Sequence[Row], width: float) -> Block:
    def draw(sheet: Sheet, at: float) -> None:
        for place, each in enumerate(strategies):
            y = at + place * _NARROW_ROW + 0.2
            labels(sheet, y - 0.13, [rows[place]], 0.2)
            sheet.text(width - MARGIN, y, _details(each), 8, ALARM if wording.faults(each) else GREY, ha="right")
        _draw(sheet.axes(MARGIN, at, width - 2 * MARGIN, len(rows) * _NARROW_ROW), strategies, 0.68)

    return Block(len(rows) * _NARROW_ROW + _AXIS, draw)


def _details(strategy: Strategy) -> str:
    return wording.faults(strategy) or f"p99 {duration(strategy.p99_ms)}, max {duration(strategy.max_ms)}"


def _columns(sheet: Sheet, at: float, result: LatencyResult, strategies: Sequence[Strategy]) -> None:
    rights = [sheet.width - MARGIN - sum(_COLUMNS[number + 1 :]) for number in range(len(_COLUMNS))]
    for right, head in zip(rights, ("p99", "max", "p50 ratio"), strict=True):
        sheet.text(right, at + 0.12, head, 8.5, ha="right")
    for place, each in enumerate(strategies):
        y = at + 0.2 + (place + 0.5) * _ROW
        ours = is_ours(each.name)
        said = (duration(each.p99_ms), duration(each.max_ms), "1×" if ours else times(wording.slower(each, result)))
        for right, text in zip(rights, said, strict=True):
            sheet.text(right, y, text, 9, ACCENT if ours else INK, ha="right", va="center_baseline")
        sheet.text(MARGIN, y + 0.19, wording.faults(each), 7.5, ALARM, weight="bold")


def _draw(axes: Axes, strategies: Sequence[Strategy], middle: float) -> None:
    """`middle`: where in its row a strategy is drawn."""
    low, high = _range(strategies)
    axes.set(xscale="log", xlim=(low, high), ylim=(len(strategies), 0))
    axes.xaxis.set_major_locator(FixedLocator([10.0**power for power in _powers(low, high)]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda ms, _: tick(ms)))
    axes.yaxis.set_major_locator(NullLocator())
    axes.grid(axis="x", color=FAINT, linewidth=1)
    for place, strategy in enumerate(strategies):
        _row(axes, strategy, place + middle, low)


def _row(axes: Axes, strategy: Strategy, y: float, low: float) -> None:
    if not all(map(math.isfinite, strategy[1:5])):
        axes.text(low, y, "nothing arrived", size=9, color=ALARM, va="center_baseline")
        return
    half, _, most, slowest = (max(ms, low) for ms in strategy[1:5])
    strong, light = (ACCENT, ACCENT_LIGHT) if is_ours(strategy.name) else (NEUTRAL, NEUTRAL_LIGHT)
    axes.plot([half, slowest], [y, y], color=light, linewidth=1.2, solid_capstyle="butt")
    axes.plot([slowest], [y], marker="|", markersize=9, markeredgewidth=1.4, color=strong)
    axes.plot([half, most], [y, y], color=light, linewidth=8, solid_capstyle="butt")
    axes.plot([half], [y], marker="o", markersize=8, color=strong, markeredgecolor="white", zorder=3, clip_on=False)
    axes.annotate(
        duration(strategy.p50_ms),
        (half, y),
        xytext=(-8, 0),
        textcoords="offset points",
        ha="right",
        va="center_baseline",
        size=10,
        weight="bold",
        color=strong if is_ours(strategy.name) else INK,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.5},
    )


def _range(strategies: Sequence[Strategy]) -> tuple[float, float]:
    """From a decade with room for the first label to a little beyond what was slowest, or to the next tick."""
    known = [ms for each in strategies for ms in each[1:5] if isinstance(ms, float) and 0 < ms < math.inf]
    low = 10.0 ** math.floor(math.log10(min(known, default=1.0) / 4))
    high = max([*known, low * 100])
    next_tick = 10.0 ** math.ceil(math.log10(high))
    return low, next_tick * 1.02 if next_tick / high < _NEAR else high * 1.25


def _powers(low: float, high: float) -> range:
    return range(round(math.log10(low)), math.floor(math.log10(high)) + 1)


WIDE = 9.2  # inches
PHONE = 4.0


def latency(result: LatencyResult, width: float = WIDE) -> Sheet:
    """A row a strategy, and below what the database paid."""
    strategies = wording.ordered(result)
    rows = [Row(label(each.name), is_ours(each.name)) for each in strategies]
    return stacked(
        f"latency-{'wide' if width >= NARROW else 'phone'}",
        width,
        [
            heading(
                width,
                wording.latency_title(result),
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
            heading(width, wording.throughput_title(result), "Events a second.", 13),
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
        f"{wording.workload(result.workload)}. {wording.machine(result.machine)}.",
        f"{wording.versions(result.versions)}. {result.date}, {result.command}",
    )
