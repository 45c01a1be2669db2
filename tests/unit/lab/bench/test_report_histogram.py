"""The histograms of the page: where bars and ticks are."""

from tests.unit.lab.bench import samples
from walrelay.lab.bench.report.histogram import HEIGHT, WIDTH, histograms
from walrelay.lab.bench.results import Strategy


def _strategy(name: str, histogram: list[tuple[float, int]]) -> Strategy:
    return samples.strategy(name, (1.0, 2.0, 3.0, 4.0))._replace(histogram=histogram)


def test_all_have_the_same_axis_and_are_inside_it() -> None:
    found = histograms(samples.STRATEGIES)
    assert len(found) == len(samples.STRATEGIES)
    assert len({tuple(each.ticks) for each in found}) == 1
    for each in found:
        assert all(0 <= bar.x <= bar.x + bar.width <= WIDTH for bar in each.bars)
        assert max(bar.height for bar in each.bars) == HEIGHT


def test_a_bar_ends_where_its_bound_is() -> None:
    (found,) = histograms([_strategy("walrelay", [(1.0, 2), (10.0, 4), (100.0, 1), (1000.0, 1)])])
    places = {tick.text: tick.x for tick in found.ticks}
    assert list(places) == ["0.1 ms", "1 ms", "10 ms", "100 ms", "1 s"]
    assert found.bars[1].x == places["1 ms"]
    assert found.bars[1].x + found.bars[1].width == places["10 ms"] - 0.6
    assert found.median == places["1 ms"]


def test_empty_buckets_at_the_ends_take_no_room() -> None:
    wide = [(0.1, 0), (1.0, 3), (10.0, 4), (100.0, 0), (1000.0, 0)]
    (found,) = histograms([_strategy("walrelay", wide)])
    assert [tick.text for tick in found.ticks] == ["0.1 ms", "1 ms", "10 ms"]


def test_few_latencies_have_an_axis_too() -> None:
    (found,) = histograms([_strategy("walrelay", [(1.26, 0), (1.58, 7), (2.0, 0)])])
    assert len(found.ticks) >= 2


def test_a_strategy_of_which_nothing_arrived_has_none() -> None:
    assert [each.label for each in histograms([samples.WALRELAY, _strategy("polling-1s", [(1.0, 0)])])] == ["walrelay"]
    assert histograms([]) == []
