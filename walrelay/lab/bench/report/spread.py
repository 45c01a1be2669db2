"""Latencies, a row a strategy on one logarithmic axis: the median, from there to the 99th percentile, the slowest."""

import math
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from walrelay.lab.bench.report import findings
from walrelay.lab.bench.report.blocks import MARGIN, NARROW, Block, Row, label_room, labels
from walrelay.lab.bench.report.sheet import ACCENT, ACCENT_LIGHT, ALARM, FAINT, GREY, INK, NEUTRAL, NEUTRAL_LIGHT, Sheet
from walrelay.lab.bench.report.wording import duration, is_ours, label, tick, times
from walrelay.lab.bench.results import LatencyResult, Strategy

_ROW = 0.44
_NARROW_ROW = 0.62
_COLUMNS = (0.72, 0.78, 0.98)  # inches: p99, max, p50 in walrelay's
_AXIS = 0.36
_NEAR = 4


def spread(result: LatencyResult, width: float) -> Block:
    """Narrow ones say less beside the rows, and say it above them."""
    strategies = findings.ordered(result)
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
        for number, each in enumerate(strategies):
            y = at + number * _NARROW_ROW + 0.2
            labels(sheet, y - 0.13, [rows[number]], 0.2)
            sheet.text(width - MARGIN, y, _details(each), 8, ALARM if findings.faults(each) else GREY, ha="right")
        _draw(sheet.axes(MARGIN, at, width - 2 * MARGIN, len(rows) * _NARROW_ROW), strategies, 0.68)

    return Block(len(rows) * _NARROW_ROW + _AXIS, draw)


def _details(strategy: Strategy) -> str:
    return findings.faults(strategy) or f"p99 {duration(strategy.p99_ms)}, max {duration(strategy.max_ms)}"


def _columns(sheet: Sheet, at: float, result: LatencyResult, strategies: Sequence[Strategy]) -> None:
    rights = [sheet.width - MARGIN - sum(_COLUMNS[number + 1 :]) for number in range(len(_COLUMNS))]
    for right, head in zip(rights, ("p99", "max", "p50 ratio"), strict=True):
        sheet.text(right, at + 0.12, head, 8.5, ha="right")
    for number, each in enumerate(strategies):
        y = at + 0.2 + (number + 0.5) * _ROW
        ours = is_ours(each.name)
        said = (duration(each.p99_ms), duration(each.max_ms), "1×" if ours else times(findings.slower(each, result)))
        for right, text in zip(rights, said, strict=True):
            sheet.text(right, y, text, 9, ACCENT if ours else INK, ha="right", va="center_baseline")
        sheet.text(MARGIN, y + 0.19, findings.faults(each), 7.5, ALARM, weight="bold")


def _draw(axes: Axes, strategies: Sequence[Strategy], middle: float) -> None:
    """`middle`: where in its row a strategy is drawn."""
    low, high = _range(strategies)
    axes.set(xscale="log", xlim=(low, high), ylim=(len(strategies), 0))
    axes.xaxis.set_major_locator(FixedLocator([10.0**power for power in _powers(low, high)]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda ms, _: tick(ms)))
    axes.yaxis.set_major_locator(NullLocator())
    axes.grid(axis="x", color=FAINT, linewidth=1)
    for number, strategy in enumerate(strategies):
        _row(axes, strategy, number + middle, low)


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
