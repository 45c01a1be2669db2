"""The charts: valid SVG that says what it shows, and a place for every strategy and reader."""

from collections.abc import Callable, Iterator
from xml.etree import ElementTree

import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tests.unit.lab.bench import samples
from walrelay.lab.bench import chart, drawing
from walrelay.lab.bench.results import LatencyResult, Strategy
from walrelay.lab.bench.wording import label

_SVG = "{http://www.w3.org/2000/svg}"


def _shown(figure: Figure) -> list[Axes]:
    return [axes for axes in figure.axes if axes.axison]


def _names(axes: Axes) -> list[str]:
    return [text.get_text().partition("\n")[0] for text in axes.get_yticklabels()]


@pytest.mark.parametrize("phone", [False, True])
@pytest.mark.parametrize(
    "draw",
    [
        lambda phone: chart.latency(samples.latency(), phone=phone),
        lambda phone: chart.latency(samples.latency([samples.WALRELAY]), phone=phone),
        lambda phone: chart.throughput(samples.throughput(), phone=phone),
        lambda phone: chart.histograms(samples.latency(), phone=phone),
    ],
)
def test_a_chart_is_valid_and_tells_a_screen_reader_what_it_shows(draw: Callable[[bool], Figure], phone: bool) -> None:
    root = ElementTree.fromstring(drawing.svg(draw(phone), "name", "The title", "What was <found>"))
    title, description = root.find(f"{_SVG}title"), root.find(f"{_SVG}desc")
    assert title is not None
    assert title.text == "The title"
    assert description is not None
    assert description.text == "What was <found>"
    assert root.get("role") == "img"
    assert root.get("aria-labelledby") == f"{title.get('id')} {description.get('id')}"


def test_a_chart_needs_no_font_where_it_is_shown() -> None:
    root = ElementTree.fromstring(drawing.svg(chart.latency(samples.latency()), "latency", "", ""))
    assert not root.findall(f".//{_SVG}text")
    assert root.findall(f".//{_SVG}path")


def test_a_chart_is_the_same_each_time() -> None:
    one, other = (drawing.svg(chart.throughput(samples.throughput()), "throughput", "", "") for _ in range(2))
    assert one == other


def test_every_strategy_and_every_reader_has_a_row_those_that_were_not_run_too() -> None:
    strategies = [label(each.name) for each in samples.STRATEGIES]
    assert _names(chart.latency(samples.latency()).axes[0]) == strategies
    found = samples.throughput()
    readers = [label(name) for name in (*(run.name for run in found.runs), *(name for name, _ in found.not_run))]
    assert _names(chart.throughput(found).axes[0]) == readers


@pytest.mark.parametrize("phone", [False, True])
def test_a_strategy_or_a_reader_more_makes_a_chart_higher(phone: bool) -> None:
    fewer = samples.latency(samples.STRATEGIES[:-1])
    assert _height(chart.latency(fewer, phone=phone)) < _height(chart.latency(samples.latency(), phone=phone))
    nothing_missing = samples.throughput()._replace(not_run=[])
    more = chart.throughput(samples.throughput(), phone=phone)
    assert _height(chart.throughput(nothing_missing, phone=phone)) < _height(more)


def test_what_went_wrong_stands_below_the_name() -> None:
    texts = [text.get_text() for text in chart.latency(samples.latency()).axes[0].get_yticklabels()]
    assert texts[1] == "polling every 5 s\n3 lost"


def _height(figure: Figure) -> float:
    return float(figure.get_size_inches()[1])


def _bars(axes: Axes) -> Iterator[tuple[float, float, float]]:
    """From, to, how high: of what is higher than nothing."""
    (stairs,) = axes.patches
    values, edges, _ = stairs.get_data()  # type: ignore[attr-defined]
    return zip(edges, edges[1:], values, strict=False)


def _with(histogram: list[tuple[float, int]], name: str = "walrelay") -> Strategy:
    return samples.strategy(name, (1.0, 2.0, 3.0, 4.0))._replace(histogram=histogram)


def _of(*strategies: Strategy) -> LatencyResult:
    return samples.latency(strategies)


def test_every_strategy_has_a_histogram_and_all_have_the_same_axis() -> None:
    figure = chart.histograms(samples.latency())
    assert figure is not None
    found = _shown(figure)
    assert [axes.get_title(loc="left") for axes in found] == [label(each.name) for each in samples.STRATEGIES]
    assert len({axes.get_xlim() for axes in found}) == 1


def test_a_bar_ends_where_its_bound_is_and_empty_buckets_at_the_ends_take_no_room() -> None:
    figure = chart.histograms(_of(_with([(0.1, 0), (1.0, 3), (10.0, 4), (100.0, 0), (1000.0, 0)])))
    assert figure is not None
    assert list(_bars(figure.axes[0])) == [(0.1, 1.0, 3), (1.0, 10.0, 4)]


def test_a_strategy_of_which_nothing_arrived_has_none() -> None:
    silent = _with([(1.0, 0)], "polling-1s")
    figure = chart.histograms(_of(samples.WALRELAY, silent))
    assert figure is not None
    assert len(_shown(figure)) == 1
    assert chart.histograms(_of(silent)) is None
