"""The last hours of a relay in numbers."""

from walrelay.admin.history import RelayHistory

NOON = 1_800_000_000.0  # a multiple of a minute


def test_what_came_within_a_step_is_folded_as_its_kind_wants() -> None:
    history = RelayHistory()
    for second, rate, lag in ((0, 10.0, 3.0), (5, 20.0, 1.0)):
        history.add(NOON + second, {"published_per_second": rate, "lag_seconds": lag, "dead_letters": second})
    part = history.last(60, NOON + 6)
    assert part.step == 15
    assert part.at == [NOON]
    assert part.series["published_per_second"] == [15.0]
    assert part.series["lag_seconds"] == [3.0]
    assert part.series["dead_letters"] == [5.0]
    assert part.series["in_flight"] == [None]


def test_a_time_in_which_nothing_was_seen_is_a_gap() -> None:
    history = RelayHistory()
    history.add(NOON, {"lag_bytes": 1})
    history.add(NOON + 45, {"lag_bytes": 2})
    part = history.last(3600, NOON + 46)
    assert [*part.at] == [NOON, NOON + 15, NOON + 30, NOON + 45]
    assert part.series["lag_bytes"] == [1.0, None, None, 2.0]


def test_an_hour_has_small_steps_and_a_day_larger_ones() -> None:
    history = RelayHistory()
    for second in range(0, 7200, 15):
        history.add(NOON + second, {"lag_bytes": second})
    hour, day = history.last(3600, NOON + 7199), history.last(86_400, NOON + 7199)
    assert (hour.step, len(hour.at)) == (15, 240)
    assert (day.step, len(day.at)) == (60, 120)
    assert day.series["lag_bytes"][-1] == 7185.0


def test_nothing_grows_with_time() -> None:
    history = RelayHistory()
    for second in range(0, 3 * 86_400, 15):
        history.add(NOON + second, {"lag_bytes": second})
    assert len(history.last(86_400, NOON + 3 * 86_400 - 1).at) == 1440
    assert len(history.last(3600, NOON + 3 * 86_400 - 1).at) == 240


def test_nothing_is_known_before_anything_was_seen() -> None:
    part = RelayHistory().last(3600, NOON)
    assert part.at == []
    assert part.series["lag_bytes"] == []
