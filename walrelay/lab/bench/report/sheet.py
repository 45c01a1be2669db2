"""A white sheet to draw on, measured in inches from its upper left corner; as SVG and as PNG.

Nothing of pyplot: no window, no display, no figure that outlives its sheet. Text becomes paths: it looks the same
everywhere, and needs no font where it is shown.
"""

from io import BytesIO
from typing import Any
from xml.etree import ElementTree

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextToPath

from walrelay.lab.bench.report.wording import tied

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
