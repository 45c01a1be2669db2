"""The charts: valid SVG that says what it shows, and a place for every strategy and reader."""

from collections.abc import Callable
from xml.etree import ElementTree

import pytest

from tests.unit.lab.bench import samples
from walrelay.lab.bench.report import chart
from walrelay.lab.bench.report.sheet import Sheet, width_of, wrapped

_SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("width", [chart.WIDE, chart.PHONE])
@pytest.mark.parametrize(
    "draw",
    [
        lambda width: chart.latency(samples.latency(), width),
        lambda width: chart.latency(samples.latency([samples.WALRELAY]), width),
        lambda width: chart.throughput(samples.throughput(), width),
    ],
)
def test_a_chart_is_valid_and_tells_a_screen_reader_what_it_shows(draw: Callable[[float], Sheet], width: float) -> None:
    root = ElementTree.fromstring(draw(width).svg("The title", "What was <found>"))
    title, description = root.find(f"{_SVG}title"), root.find(f"{_SVG}desc")
    assert title is not None
    assert title.text == "The title"
    assert description is not None
    assert description.text == "What was <found>"
    assert root.get("role") == "img"
    assert root.get("aria-labelledby") == f"{title.get('id')} {description.get('id')}"


def test_a_chart_needs_no_font_where_it_is_shown() -> None:
    root = ElementTree.fromstring(chart.latency(samples.latency()).svg("", ""))
    assert not root.findall(f".//{_SVG}text")
    assert root.findall(f".//{_SVG}path")


def test_a_chart_is_the_same_each_time() -> None:
    one, other = (chart.throughput(samples.throughput()).svg("", "") for _ in range(2))
    assert one == other


def test_a_strategy_or_a_reader_more_makes_a_chart_higher() -> None:
    fewer = samples.latency(samples.STRATEGIES[:-1])
    assert chart.latency(fewer).height < chart.latency(samples.latency()).height
    nothing_missing = samples.throughput()._replace(not_run=[])
    assert chart.throughput(nothing_missing).height < chart.throughput(samples.throughput()).height


def test_lines_fit_and_keep_numbers_and_their_units_together() -> None:
    lines = wrapped("COMMIT to consumer: walrelay 1.4 ms, polling every second 512 ms", 2.0, 13, "bold")
    assert all(width_of(line, 13, "bold") <= 2.0 for line in lines)
    assert not any(line.startswith("ms") for line in lines)
