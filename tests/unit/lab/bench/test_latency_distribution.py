"""Percentiles and histograms."""

import math
from itertools import pairwise

import pytest

from walrelay.lab.bench.account import bounds, histogram, percentile


@pytest.mark.parametrize(("percent", "expected"), [(50, 50), (90, 90), (99, 99), (100, 100), (0.1, 1)])
def test_a_percentile_is_one_of_the_measured_values(percent: float, expected: float) -> None:
    assert percentile(range(1, 101), percent) == expected


def test_few_values_have_percentiles_too() -> None:
    assert [percentile([3.0, 7.0], percent) for percent in (50, 90, 99, 100)] == [3.0, 7.0, 7.0, 7.0]
    assert percentile([4.0], 50) == 4.0


def test_nothing_measured_has_none() -> None:
    assert math.isnan(percentile([], 50))


def test_bounds_rise_evenly_on_a_log_axis_ten_to_a_decade() -> None:
    found = bounds(95.0)
    assert found[0] == 0.1
    assert found[10] == 1.0
    assert found[30] == 100.0
    assert len(found) == 31
    assert all(later / earlier == pytest.approx(10**0.1, rel=1e-3) for earlier, later in pairwise(found))


@pytest.mark.parametrize("longest", [0.0, 0.05, 0.1, 0.10001, 1.0, 1.2594, 99.99, 100.0, 12345.678, 60_000.0])
def test_the_last_bound_holds_the_longest(longest: float) -> None:
    found = bounds(longest)
    assert found[-1] >= longest
    assert len(found) == 1 or found[-2] < longest * 1.001


def test_each_value_is_counted_in_the_bucket_up_to_its_bound() -> None:
    counted = histogram([0.0, 0.1, 0.11, 0.95, 1.0], bounds(1.0))
    assert [(bound, count) for bound, count in counted if count] == [(0.1, 2), (0.1259, 1), (1.0, 2)]
    assert sum(count for _, count in counted) == 5
