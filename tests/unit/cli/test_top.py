"""The table of `walrelay top`: it fits the terminal, and numbers fit their columns."""

import click
import pytest

from walrelay.cli.top.table import columns, cut, heading, plain, row, seconds, short
from walrelay.control.asking import Rates, RelayActivity, rates
from walrelay.operations.overview import Judgement, RelayGlance, SeenRelay

LIVE = RelayActivity(
    "s", "host:1", 10.0, 1.0, "streaming", 5, 5, 50, None, 7, 0.0, 0.0, 0, 0, 0, 0, None, None, None, None, (), (),
    None, 5, 5,
)  # fmt: skip


def relay(name: str = "orders", live: RelayActivity | None = None) -> SeenRelay:
    glance = RelayGlance(name, "s", "streaming", "host:1", "0/1", 10**9, 70.0, 10**12, None, None, None, False)
    judgement = Judgement("warning", "why\nnot \x1b[2J")
    return SeenRelay(glance, judgement, live, in_flight=None if live is None else live.in_flight)


@pytest.mark.parametrize("width", [20, 79, 80, 95, 96, 120, 140, 200])
def test_a_line_fits_the_terminal(width: int) -> None:
    for each in (relay(), relay("a" * 60, LIVE)):
        lines = [heading(width), row(each, width), row(each, width, selected=True)]
        assert {len(click.unstyle(line)) for line in lines} == {len(click.unstyle(lines[0]))}
        assert len(click.unstyle(lines[0])) <= max(width, 79)
        assert "\x1b[2J" not in lines[1]
        assert "\n" not in lines[1]


def test_wide_terminals_show_more() -> None:
    assert [len(columns(width)) for width in (80, 120, 140)] == [11, 12, 13]
    assert "a" * 30 in row(relay("a" * 30), 96)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (None, "-"),
        (0, "0"),
        (7, "7"),
        (999, "999"),
        (999.6, "1.0k"),
        (1_234, "1.2k"),
        (99_600, "100k"),
        (4.5e12, "4.5T"),
    ],
)
def test_numbers_are_short(number: float | None, text: str) -> None:
    assert short(number) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (None, "-"),
        (0.0, "0s"),
        (0.0001, "1ms"),
        (0.25, "250ms"),
        (0.9999, "1.0s"),
        (12, "12s"),
        (99, "99s"),
        (240, "4.0m"),
        (7_200, "2.0h"),
        (100_000, "28h"),
        (864_000, "10d"),
    ],
)
def test_times_are_short(number: float | None, text: str) -> None:
    assert seconds(number) == text
    assert len(text) <= 5


def test_what_is_too_long_is_cut_and_what_a_terminal_would_obey_is_not_shown() -> None:
    assert cut("abcdef", 4) == "abc…"
    assert plain("a\nb \x1b[2J") == "a b \\x1b[2J"


def test_rates_are_of_one_process() -> None:
    later = LIVE._replace(at=12.0, published=25, published_bytes=450)
    assert rates(LIVE, later) == Rates(10.0, 200.0)
    for other in (LIVE._replace(instance="host:2"), LIVE._replace(since=2.0), later._replace(at=13.0), None):
        assert rates(other, later) is None
    assert rates(LIVE, None) is None
