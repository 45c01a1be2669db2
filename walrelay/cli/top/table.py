"""The table of `walrelay top`, in as many columns as there is room for; and how numbers are written there."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import click

from walrelay.cli.streams import printable
from walrelay.operations.overview import SeenRelay

COLORS = {"ok": "green", "warning": "yellow", "critical": "red"}
NOT_KNOWN = "-"

_SEVERITY = {"ok": 0, "warning": 1, "critical": 2}
_UNITS = ("", "k", "M", "G", "T", "P")


class TopColumn(NamedTuple):
    """`order`: by what it is sorted. `needs`: how wide the terminal has to be for it."""

    head: str
    width: int
    text: Callable[[SeenRelay], str]
    order: Callable[[SeenRelay], float | str]
    needs: int = 0
    left: bool = False


def short(number: float | None, base: int = 1000) -> str:
    """In up to five characters: 7, 12.3k, 4.5M."""
    if number is None:
        return NOT_KNOWN
    value, unit = float(number), 0
    while abs(value) >= 999.5 and unit < len(_UNITS) - 1:
        value, unit = value / base, unit + 1
    return f"{value:.0f}{_UNITS[unit]}" if value >= 99.5 or unit == 0 else f"{value:.1f}{_UNITS[unit]}"


def seconds(number: float | None) -> str:
    """In up to five characters: 4ms, 1.2s, 5m, 3h, 2d."""
    if number is None:
        return NOT_KNOWN
    if number < 0.9995:
        return f"{max(1.0, number * 1000):.0f}ms" if number else "0s"
    for unit, length, most in (("s", 1, 100), ("m", 60, 5_940), ("h", 3_600, 342_000)):
        if number < most:
            return f"{number / length:.1f}{unit}" if number / length < 9.95 else f"{number / length:.0f}{unit}"
    return f"{number / 86_400:.0f}d"


def _p99(relay: SeenRelay) -> float | None:
    return relay.latency.p99 if relay.latency is not None else None


def _or(number: float | None, otherwise: float = -1.0) -> float:
    return otherwise if number is None else number


def _safe(relay: SeenRelay) -> str:
    return short(relay.seen.safe_bytes, 1024) if relay.seen.safe_bytes is not None else "∞"


COLUMNS: Sequence[TopColumn] = (
    TopColumn("relay", 14, lambda each: each.seen.name, lambda each: each.seen.name, left=True),
    TopColumn("state", 11, lambda each: each.seen.state, lambda each: _SEVERITY[each.judgement.level], left=True),
    TopColumn(
        "ev/s",
        5,
        lambda each: short(each.rates and each.rates.published),
        lambda each: _or(each.rates and each.rates.published),
    ),
    TopColumn(
        "B/s", 5, lambda each: short(each.rates and each.rates.bytes), lambda each: _or(each.rates and each.rates.bytes)
    ),
    TopColumn("lag", 5, lambda each: short(each.seen.lag_bytes, 1024), lambda each: _or(each.seen.lag_bytes)),
    TopColumn("late", 5, lambda each: seconds(each.seen.lag_seconds), lambda each: _or(each.seen.lag_seconds)),
    TopColumn("WAL", 5, lambda each: short(each.seen.retained_bytes, 1024), lambda each: _or(each.seen.retained_bytes)),
    TopColumn("safe", 5, _safe, lambda each: -_or(each.seen.safe_bytes, 1e30)),
    TopColumn(
        "unack",
        5,
        lambda each: short(each.in_flight),
        lambda each: _or(each.in_flight),
    ),
    TopColumn("p99", 5, lambda each: seconds(_p99(each)), lambda each: _or(_p99(each))),
    TopColumn("dead", 4, lambda each: short(each.seen.dead_letters), lambda each: _or(each.seen.dead_letters)),
    TopColumn(
        "leader", 24, lambda each: each.seen.instance or "nobody", lambda each: each.seen.instance or "", 120, True
    ),
    TopColumn("", 40, lambda each: each.judgement.why, lambda each: each.judgement.why, 140, True),
)


_ROOMY, _LONG_NAME = 96, 30


def columns(width: int) -> list[TopColumn]:
    """The first has room for longer names where the terminal has, and the last one takes what is left."""
    found = [each for each in COLUMNS if each.needs <= width]
    if width >= _ROOMY:
        found[0] = found[0]._replace(width=_LONG_NAME)
    if len(found) == len(COLUMNS):
        taken = sum(each.width + 1 for each in found[:-1])
        found[-1] = found[-1]._replace(width=max(1, width - taken))
    return found


def heading(width: int, sort: int = -1) -> str:
    cells = []
    for number, each in enumerate(columns(width)):
        text = _cell(each, each.head)
        cells.append(click.style(text, underline=True, bold=True) if number == sort else click.style(text, bold=True))
    return " ".join(cells)


def row(relay: SeenRelay, width: int, *, selected: bool = False) -> str:
    """One line; the selected one is marked without colors too."""
    cells = [_cell(each, plain(each.text(relay))) for each in columns(width)]
    if selected:
        return click.style(" ".join(cells), reverse=True)
    cells[1] = click.style(cells[1], fg=COLORS[relay.judgement.level])
    return " ".join(cells)


def table(relays: Sequence[SeenRelay], width: int) -> list[str]:
    return [heading(width), *(row(each, width) for each in relays)]


def plain(text: str) -> str:
    """In one line, without what a terminal would obey."""
    return printable(" ".join(text.split()))


def cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: max(0, width - 1)]}…"


def _cell(column: TopColumn, text: str) -> str:
    text = cut(text, column.width)
    return text.ljust(column.width) if column.left else text.rjust(column.width)
