"""When the writer commits."""

from itertools import pairwise
from statistics import mean, pstdev

import pytest

from walrelay.lab.bench.ends import MODES, schedule


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_has_as_many_commits_in_order_and_the_same_ones_for_the_same_seed(mode: str) -> None:
    times = schedule(mode, 200, 10, 3)
    assert len(times) == 2000
    assert list(times) == sorted(times)
    assert times[0] >= 0
    assert times == schedule(mode, 200, 10, 3)


def test_steady_has_one_commit_in_each_slot() -> None:
    times = schedule("steady", 50, 4, 1)
    assert [int(time * 50) for time in times] == list(range(200))


def test_steady_does_not_keep_time_with_an_interval() -> None:
    """200 a second and 100 polls a second: with equal distances the waits would be two, and the same all the time."""
    waits = [0.01 - time % 0.01 for time in schedule("steady", 200, 10, 0)]
    tenths = [sum(low <= wait * 1000 < low + 1 for wait in waits) for low in range(10)]
    assert min(tenths) > 100


def test_bursts_are_a_second_apart_and_hold_all_of_a_second() -> None:
    times = schedule("burst", 20, 3, 0)
    assert times == [0.0] * 20 + [1.0] * 20 + [2.0] * 20


def test_a_burst_holds_one_commit_at_least() -> None:
    assert schedule("burst", 0.5, 8, 0) == [0.0, 2.0, 4.0, 6.0]


def test_poisson_gaps_vary_as_much_as_they_are_long() -> None:
    gaps = [later - earlier for earlier, later in pairwise(schedule("poisson", 100, 100, 7))]
    assert mean(gaps) == pytest.approx(0.01, rel=0.05)
    assert pstdev(gaps) == pytest.approx(0.01, rel=0.05)


def test_something_is_committed_however_short_it_is() -> None:
    assert len(schedule("steady", 1, 0.01, 0)) == 1
