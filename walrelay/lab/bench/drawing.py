"""What the charts have in common: sizes, colours and labels, parts one below the other, rows and bars, the files."""

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

from walrelay.lab.bench.wording import is_ours, label, tick, tied

INK, GREY, LINE, FAINT = "#1f2328", "#57606a", "#d0d7de", "#eaeef2"
ACCENT, ACCENT_LIGHT = "#0550ae", "#54aeff"
NEUTRAL, NEUTRAL_LIGHT = "#6e7781", "#afb8c1"
ALARM = "#bc4c00"  # told from the blue also by those who cannot tell red from green

WIDE, PHONE = 9.2, 4.2  # inches
HEAD, _ROW, WIDE_ROW = 0.75, 0.27, 0.44

STYLE: Any = {
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


def svg(figure: Figure, name: str, title: str, description: str) -> str:
    """The figure as SVG with a text for screen readers and no external files; `name` is unique on its page."""
    file = BytesIO()
    with rc_context(STYLE):
        figure.savefig(file, format="svg", metadata=_NO_METADATA)
    drawn = file.getvalue().decode()
    drawn = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", drawn[drawn.index("<svg") :])
    head, _, body = drawn.partition(">")
    said = f'<title id="{name}-title">{escape(title)}</title><desc id="{name}-desc">{escape(description)}</desc>'
    return f'{head} role="img" aria-labelledby="{name}-title {name}-desc">{said}{body}'


def png(figure: Figure) -> bytes:
    file = BytesIO()
    with rc_context(STYLE):
        figure.savefig(file, format="png", dpi=200)
    return file.getvalue()


def stacked(parts: Sequence[ChartPart], small_print: Sequence[str], *, phone: bool) -> Figure:
    width = PHONE if phone else WIDE
    last = "\n".join(wrapped(line, width, 7.5) for line in small_print)
    heights = [part.height for part in parts]
    with rc_context(STYLE):
        figure = Figure((width, sum(heights) + 0.2 + 0.15 * len(last.splitlines())), layout="constrained")
        places: Any = figure.subfigures(len(parts), 1, height_ratios=heights, hspace=0.04)
        for part, place in zip(parts, places, strict=True):
            title = wrapped(part.title, width, 13)
            place.suptitle(title, x=0.01, ha="left", size=13, weight="bold", color=INK)
            part.draw(place)
        figure.supxlabel(last, x=0.01, ha="left", size=7.5, color=GREY)
        return laid_out(figure)


def laid_out(figure: Figure) -> Figure:
    """Once, and not again whenever it is written."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    return figure


def wrapped(text: str, width: float, points: float) -> str:
    """In lines of no more than `width` inches, if the letters are as wide as they usually are."""
    return fill(tied(text), int(width * 120 / points))


def in_decades(axes: Axes, ticks: int = 7) -> None:
    axes.xaxis.set_major_locator(LogLocator(numticks=ticks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda ms, _: tick(ms)))
    axes.grid(axis="x")


def name_rows(axes: Axes, names: Sequence[str], below: Sequence[str]) -> None:
    """The first on top; walrelay's stand out."""
    texts = [f"{label(name)}\n{more}" if more else label(name) for name, more in zip(names, below, strict=True)]
    axes.set_yticks(range(len(names)), texts)
    axes.set_ylim(len(names) - 0.5, -0.5)
    for name, text in zip(names, axes.get_yticklabels(), strict=True):
        text.set(color=ACCENT if is_ours(name) else INK, weight="bold" if is_ours(name) else "normal")


def side_by_side(title: str, names: Sequence[str], panels: Sequence[Panel], *, phone: bool) -> ChartPart:
    """Side by side if there is room."""
    columns = 1 if phone else len(panels)
    rows = len(panels) // columns

    def draw(place: SubFigure) -> None:
        for axes, panel in zip(place.subplots(rows, columns, squeeze=False).flat, panels, strict=True):
            draw_bars(axes, names, panel)
            if panel is not panels[0] and columns > 1:
                axes.set_yticklabels([])

    return ChartPart(HEAD + rows * (_ROW * len(names) + 0.3), title, draw)


def draw_bars(axes: Axes, names: Sequence[str], panel: Panel) -> None:
    """From zero, with room for the texts."""
    name_rows(axes, names, [""] * len(names))
    lengths = [max(0.0, value) if value is not None and math.isfinite(value) else 0.0 for value in panel.values]
    colours = [ACCENT if is_ours(name) else NEUTRAL_LIGHT for name in names]
    bars = axes.barh(range(len(names)), lengths, height=0.56, color=colours)
    texts = axes.bar_label(bars, panel.texts, padding=4, size=8.5, color=INK)
    for name, value, text in zip(names, panel.values, texts, strict=True):
        if is_ours(name) and value is not None:
            text.set(color=ACCENT, weight="bold")
    axes.set(xlim=(0, max(lengths, default=0.0) or 1.0), xticks=[], title=panel.title)
