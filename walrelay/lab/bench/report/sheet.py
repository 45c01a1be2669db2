"""A white sheet, measured in inches from its upper left corner, and the blocks that charts are stacked from."""

import math
from collections.abc import Callable, Sequence
from io import BytesIO
from typing import Any, NamedTuple
from xml.etree import ElementTree

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextToPath

from walrelay.lab.bench.wording import tied

INK, GREY, LINE, FAINT = "#1f2328", "#57606a", "#d0d7de", "#eaeef2"
ACCENT, ACCENT_LIGHT = "#0550ae", "#54aeff"
NEUTRAL, NEUTRAL_LIGHT = "#6e7781", "#afb8c1"
ALARM = "#bc4c00"  # told from the blue also by those who cannot tell red from green

_SVG = "http://www.w3.org/2000/svg"
_XLINK = "http://www.w3.org/1999/xlink"
_POINTS = 72  # an inch
RC: Any = {
    "font.family": ["DejaVu Sans"],
    "svg.fonttype": "path",
    "svg.hashsalt": "walrelay",
}  # the font is matplotlib's own
_NO_METADATA = {"Creator": None, "Date": None, "Format": None, "Type": None}


class Sheet:
    """`name` tells it from others on the same page."""

    def __init__(self, name: str, width: float, height: float) -> None:
        self.name, self.width, self.height = name, width, height
        self._figure = Figure(figsize=(width, height), facecolor="white")
        FigureCanvasAgg(self._figure)

    def text(self, x: float, y: float, text: str, size: float = 9, colour: str = GREY, **how: Any) -> None:
        """Its baseline at `y`, its left at `x` unless `ha` says otherwise."""
        self._figure.text(x / self.width, 1 - y / self.height, text, size=size, color=colour, parse_math=False, **how)

    def paragraph(self, x: float, y: float, lines: list[str], size: float, colour: str = GREY, **how: Any) -> None:
        for number, line in enumerate(lines):
            self.text(x, y + number * leading(size), line, size, colour, **how)

    def axes(self, x: float, y: float, width: float, height: float) -> Axes:
        """A place for data; `y` is its upper edge. Without a frame."""
        place = (x / self.width, 1 - (y + height) / self.height, width / self.width, height / self.height)
        axes = self._figure.add_axes(place)
        for spine in axes.spines.values():
            spine.set_visible(False)
        axes.tick_params(length=0, labelsize=8.5, labelcolor=GREY, pad=5)
        axes.set_axisbelow(True)
        return axes

    def svg(self, title: str, description: str) -> str:
        """With what a screen reader says, and without anything from outside."""
        file = BytesIO()
        with rc_context(RC):
            self._figure.savefig(file, format="svg", metadata=_NO_METADATA)
        ElementTree.register_namespace("", _SVG)
        ElementTree.register_namespace("xlink", _XLINK)
        root = ElementTree.fromstring(file.getvalue())
        _prefix_ids(root, self.name)
        root.set("role", "img")
        root.set("aria-labelledby", f"{self.name}-title {self.name}-desc")
        for place, (tag, text) in enumerate((("title", title), ("desc", description))):
            element = ElementTree.Element(f"{{{_SVG}}}{tag}", id=f"{self.name}-{tag}")
            element.text = text
            root.insert(place, element)
        return ElementTree.tostring(root, encoding="unicode")

    def png(self) -> bytes:
        file = BytesIO()
        with rc_context(RC):
            self._figure.savefig(file, format="png", dpi=200)
        return file.getvalue()


def _prefix_ids(root: ElementTree.Element, prefix: str) -> None:
    """Two charts in one document must not refer to each other's parts."""
    for element in root.iter():
        for name, value in element.items():
            if name == "id":
                element.set(name, f"{prefix}-{value}")
            elif name.endswith("href") and value.startswith("#"):
                element.set(name, f"#{prefix}-{value[1:]}")
            elif "url(#" in value:
                element.set(name, value.replace("url(#", f"url(#{prefix}-"))


def leading(size: float) -> float:
    """From one line to the next, in inches."""
    return size * 1.45 / _POINTS


def width_of(text: str, size: float, weight: str = "normal") -> float:
    """In inches."""
    font = FontProperties(family="DejaVu Sans", size=size, weight=weight)
    wide, _, _ = TextToPath().get_text_width_height_descent(text, font, ismath=False)
    return float(wide) / _POINTS


def wrapped(text: str, width: float, size: float, weight: str = "normal") -> list[str]:
    """Lines that fit into `width` inches, as far as words allow."""
    lines = [""]
    for word in tied(text).split(" "):
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and width_of(longer, size, weight) > width:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines


MARGIN = 0.3
NARROW = 5.0  # inches; below, a chart is for a phone

_NAME = 9.5
_VALUE = 8.5
_ROW = 0.27
_BESIDE = 0.12  # inches


class Block(NamedTuple):
    """Something of a height in inches, to be drawn from a place downwards."""

    height: float
    draw: Callable[[Sheet, float], None]


class Row(NamedTuple):
    label: str
    ours: bool


class Panel(NamedTuple):
    """One quantity for every row; `texts` is what stands beside the bars."""

    title: str
    values: Sequence[float | None]
    texts: Sequence[str]


def stacked(name: str, width: float, blocks: Sequence[Block]) -> Sheet:
    with rc_context(RC):
        sheet = Sheet(name, width, 2 * MARGIN + sum(block.height for block in blocks))
        at = MARGIN
        for block in blocks:
            block.draw(sheet, at)
            at += block.height
    return sheet


def heading(width: float, title: str, under: str = "", size: float = 14, before: float = 0.0) -> Block:
    """A title that says something, and how to read what follows."""
    lines = wrapped(title, width - 2 * MARGIN, size, "bold")
    small = wrapped(under, width - 2 * MARGIN, 9) if under else []

    def draw(sheet: Sheet, at: float) -> None:
        first = at + before + size / 72
        sheet.paragraph(MARGIN, first, lines, size, INK, weight="bold")
        sheet.paragraph(MARGIN, first + len(lines) * leading(size) - 0.02, small, 9)

    return Block(before + len(lines) * leading(size) + len(small) * leading(9) + 0.12, draw)


def small_print(width: float, *paragraphs: str) -> Block:
    lines = [line for text in paragraphs for line in wrapped(text, width - 2 * MARGIN, 7.5)]

    def draw(sheet: Sheet, at: float) -> None:
        sheet.paragraph(MARGIN, at + 0.3, lines, 7.5)

    return Block(0.22 + len(lines) * leading(7.5), draw)


def panels(width: float, rows: Sequence[Row], shown: Sequence[Panel], left: float, row: float = _ROW) -> Block:
    """Side by side, right of `left` inches for the labels; each has its own scale, from zero."""
    each = (width - 2 * MARGIN - left) / len(shown)
    head = 0.24 if any(panel.title for panel in shown) else 0.0

    def draw(sheet: Sheet, at: float) -> None:
        labels(sheet, at + head, rows, row)
        for number, panel in enumerate(shown):
            x = MARGIN + left + number * each
            sheet.text(x, at + 0.13, panel.title, 8.5, GREY)
            _bars(sheet.axes(x, at + head, each - _BESIDE, len(rows) * row), rows, panel, each - _BESIDE)

    return Block(head + len(rows) * row + 0.12, draw)


def labels(sheet: Sheet, at: float, rows: Sequence[Row], height: float) -> None:
    for number, (label, ours) in enumerate(rows):
        colour, weight = (ACCENT, "bold") if ours else (INK, "normal")
        middle = at + (number + 0.5) * height
        sheet.text(MARGIN, middle, label, _NAME, colour, weight=weight, va="center_baseline")


def label_room(rows: Sequence[Row]) -> float:
    return 0.18 + max((width_of(label, _NAME, "bold" if ours else "normal") for label, ours in rows), default=0.0)


def _bars(axes: Axes, rows: Sequence[Row], panel: Panel, width: float) -> None:
    """`width`: of the axes, in inches."""
    lengths = [max(0.0, value) if value is not None and math.isfinite(value) else 0.0 for value in panel.values]
    rooms = [max(width - _BESIDE - width_of(text, _VALUE, "bold"), width / 5) for text in panel.texts]
    scale = min((room / long for room, long in zip(rooms, lengths, strict=True) if long), default=1.0)
    axes.set(xlim=(0, width), ylim=(len(rows), 0), xticks=[], yticks=[])
    axes.axvline(0, color=LINE, linewidth=1)
    for number, (row, long, text) in enumerate(zip(rows, lengths, panel.texts, strict=True)):
        y = number + 0.5
        axes.barh(y, long * scale, height=0.56, color=ACCENT if row.ours else NEUTRAL_LIGHT)
        axes.text(
            long * scale + _BESIDE / 2,
            y,
            text,
            va="center_baseline",
            size=_VALUE,
            weight="bold" if row.ours else "normal",
            color=ACCENT if row.ours else INK,
            parse_math=False,
        )
