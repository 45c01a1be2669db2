"""What charts are stacked from: headings, small print, and panels of bars side by side."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from matplotlib import rc_context
from matplotlib.axes import Axes

from walrelay.lab.bench.report.sheet import (
    ACCENT,
    GREY,
    INK,
    LINE,
    NEUTRAL_LIGHT,
    RC,
    Sheet,
    leading,
    width_of,
    wrapped,
)

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
