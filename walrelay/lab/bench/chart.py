"""Draws the charts of a benchmark, as SVG and PNG: the result at one look, what it cost, where it was measured.

The charts stand together because they share one look: sizes, colours and labels.
"""

import math
import re
from collections.abc import Callable, Sequence
from html import escape
from io import BytesIO
from textwrap import fill
from typing import Any, NamedTuple

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from walrelay.lab.bench import conditions, wording
from walrelay.lab.bench.results import LatencyResult, Run, Strategy, ThroughputResult
from walrelay.lab.bench.wording import UNKNOWN, cpu_ms, duration, is_ours, label, number, size, tick, tied

INK, GREY, LINE, FAINT = "#1f2328", "#57606a", "#d0d7de", "#eaeef2"
ACCENT, ACCENT_LIGHT = "#0550ae", "#54aeff"
NEUTRAL, NEUTRAL_LIGHT = "#6e7781", "#afb8c1"
ALARM = "#bc4c00"  # told from the blue also by those who cannot tell red from green

_WIDE, _PHONE = 9.2, 4.2  # inches
_HEAD, _ROW, _WIDE_ROW = 0.75, 0.27, 0.44
_COLUMNS = (1.1, 1.22, 1.36)  # of the axes' width: p99, max, p50 in walrelay's
_HOW = "Dot: the median. Bar: from there to the 99th percentile. Tick: the slowest event. Logarithmic scale."
_STYLE: Any = {
    "font.family": ["DejaVu Sans"],  # matplotlib's own
    "text.parse_math": False,
    "svg.fonttype": "path",
    "savefig.bbox": "tight",
    "savefig.pad_inches": 0.25,
    "svg.hashsalt": "walrelay",
    "axes.axisbelow": True,
    "axes.edgecolor": LINE,
    "axes.spines.bottom": False,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlecolor": GREY,
    "axes.titlelocation": "left",
    "axes.titlesize": 9,
    "figure.constrained_layout.h_pad": 0.08,
    "figure.constrained_layout.w_pad": 0.1,
    "grid.color": FAINT,
    "xtick.labelcolor": GREY,
    "xtick.labelsize": 8.5,
    "xtick.major.size": 0,
    "ytick.labelsize": 9.5,
    "ytick.major.size": 0,
}
_NO_METADATA: Any = {"Creator": None, "Date": None, "Format": None, "Type": None}


class Panel(NamedTuple):
    """One quantity for every row; `texts` is what stands beside the bars."""

    title: str
    values: Sequence[float | None]
    texts: Sequence[str]


class ChartPart(NamedTuple):
    """A part of a chart: its height in inches, its title, and who draws what is below it."""

    height: float
    title: str
    draw: Callable[[SubFigure], None]


def latency(result: LatencyResult, *, phone: bool = False) -> Figure:
    """A row a strategy, and below what the database paid."""
    strategies = wording.ordered(result)
    spread = ChartPart(
        _HEAD + 0.4 + _WIDE_ROW * len(strategies),
        wording.latency_title(result),
        lambda place: _spread(place.subplots(), strategies, result, phone=phone),
    )
    title = "What the database paid per 1,000 events, beyond the writer's own work"
    paid = _side_by_side(title, [each.name for each in strategies], _cost_panels(strategies), phone=phone)
    return _stacked([spread, paid], _measured_on(result), phone=phone)


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
        _HEAD + _WIDE_ROW * len([*names, *missing]),
        wording.throughput_title(result),
        lambda place: _bars(place.subplots(), [*names, *missing], speed),
    )
    took = _side_by_side("What it took", names, _run_panels(result.runs), phone=phone)
    not_run = [f"Not run: {label(name)}: {why}." for name, why in result.not_run]
    return _stacked([drained, took], [*not_run, *_measured_on(result)], phone=phone)


def histograms(result: LatencyResult, *, phone: bool = False) -> Figure | None:
    """How the latencies of each strategy are spread, all on one logarithmic axis; None if nothing arrived."""
    shown = [each for each in wording.ordered(result) if any(events for _, events in each.histogram)]
    if not shown:
        return None
    columns = 1 if phone else 3
    rows = math.ceil(len(shown) / columns)
    with rc_context(_STYLE):
        figure = Figure(figsize=(_PHONE if phone else _WIDE, 0.3 + 1.2 * rows), layout="constrained")
        every = list(figure.subplots(rows, columns, sharex=True, squeeze=False).flat)
        for strategy, axes in zip(shown, every, strict=False):
            _histogram(axes, strategy)
        for axes in every[len(shown) :]:
            axes.set_axis_off()
        return _laid_out(figure)


def svg(figure: Figure, name: str, title: str, description: str) -> str:
    """The figure as SVG with a text for screen readers and no external files; `name` is unique on its page."""
    file = BytesIO()
    with rc_context(_STYLE):
        figure.savefig(file, format="svg", metadata=_NO_METADATA)
    drawn = file.getvalue().decode()
    drawn = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", drawn[drawn.index("<svg") :])
    head, _, body = drawn.partition(">")
    said = f'<title id="{name}-title">{escape(title)}</title><desc id="{name}-desc">{escape(description)}</desc>'
    return f'{head} role="img" aria-labelledby="{name}-title {name}-desc">{said}{body}'


def png(figure: Figure) -> bytes:
    file = BytesIO()
    with rc_context(_STYLE):
        figure.savefig(file, format="png", dpi=200)
    return file.getvalue()


def _stacked(parts: Sequence[ChartPart], small_print: Sequence[str], *, phone: bool) -> Figure:
    width = _PHONE if phone else _WIDE
    last = "\n".join(_wrapped(line, width, 7.5) for line in small_print)
    heights = [part.height for part in parts]
    with rc_context(_STYLE):
        figure = Figure((width, sum(heights) + 0.2 + 0.15 * len(last.splitlines())), layout="constrained")
        places: Any = figure.subfigures(len(parts), 1, height_ratios=heights, hspace=0.04)
        for part, place in zip(parts, places, strict=True):
            title = _wrapped(part.title, width, 13)
            place.suptitle(title, x=0.01, ha="left", size=13, weight="bold", color=INK)
            part.draw(place)
        figure.supxlabel(last, x=0.01, ha="left", size=7.5, color=GREY)
        return _laid_out(figure)


def _laid_out(figure: Figure) -> Figure:
    """Once, and not again whenever it is written."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    return figure


def _wrapped(text: str, width: float, points: float) -> str:
    """In lines of no more than `width` inches, if the letters are as wide as they usually are."""
    return fill(tied(text), int(width * 120 / points))


def _spread(axes: Axes, strategies: Sequence[Strategy], result: LatencyResult, *, phone: bool) -> None:
    """Beside a row its numbers, for which a phone has no room: there they are below the name."""
    names = [each.name for each in strategies]
    below = [wording.faults(each) or (_slowest(each) if phone else "") for each in strategies]
    _rows(axes, names, below)
    for text, each in zip(axes.get_yticklabels(), strategies, strict=True):
        if not each.sound:
            text.set_color(ALARM)
    low, high = _range(strategies, room=20 if phone else 4)
    axes.set(xscale="log", xlim=(low, high))
    axes.set_xlabel(_wrapped(_HOW, 2.2 if phone else _WIDE, 8.5), size=8.5, color=GREY, loc="left")
    axes.spines.left.set_visible(False)
    _in_decades(axes, 4 if phone else 7)
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


def _in_decades(axes: Axes, ticks: int = 7) -> None:
    axes.xaxis.set_major_locator(LogLocator(numticks=ticks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda ms, _: tick(ms)))
    axes.grid(axis="x")


def _rows(axes: Axes, names: Sequence[str], below: Sequence[str]) -> None:
    """The first on top; walrelay's stand out."""
    texts = [f"{label(name)}\n{more}" if more else label(name) for name, more in zip(names, below, strict=True)]
    axes.set_yticks(range(len(names)), texts)
    axes.set_ylim(len(names) - 0.5, -0.5)
    for name, text in zip(names, axes.get_yticklabels(), strict=True):
        text.set(color=ACCENT if is_ours(name) else INK, weight="bold" if is_ours(name) else "normal")


def _side_by_side(title: str, names: Sequence[str], panels: Sequence[Panel], *, phone: bool) -> ChartPart:
    """Side by side if there is room."""
    columns = 1 if phone else len(panels)
    rows = len(panels) // columns

    def draw(place: SubFigure) -> None:
        for axes, panel in zip(place.subplots(rows, columns, squeeze=False).flat, panels, strict=True):
            _bars(axes, names, panel)
            if panel is not panels[0] and columns > 1:
                axes.set_yticklabels([])

    return ChartPart(_HEAD + rows * (_ROW * len(names) + 0.3), title, draw)


def _bars(axes: Axes, names: Sequence[str], panel: Panel) -> None:
    """From zero, with room for the texts."""
    _rows(axes, names, [""] * len(names))
    lengths = [max(0.0, value) if value is not None and math.isfinite(value) else 0.0 for value in panel.values]
    colours = [ACCENT if is_ours(name) else NEUTRAL_LIGHT for name in names]
    bars = axes.barh(range(len(names)), lengths, height=0.56, color=colours)
    texts = axes.bar_label(bars, panel.texts, padding=4, size=8.5, color=INK)
    for name, value, text in zip(names, panel.values, texts, strict=True):
        if is_ours(name) and value is not None:
            text.set(color=ACCENT, weight="bold")
    axes.set(xlim=(0, max(lengths, default=0.0) or 1.0), xticks=[], title=panel.title)


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
    _in_decades(axes)


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
