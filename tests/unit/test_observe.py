"""A stall is said, repeated while it lasts, and said to be over; who watches badly stops nothing."""

from dataclasses import dataclass

import pytest

from tests.seen import Seen
from walrelay.observe import Happening, Noticed, Observers, Resumed, Stalled, StandingBy
from walrelay.observe.stalls import StallWatch


class Watched:
    """A StallWatch and the time it sees."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        self.progress = 0
        self.trouble = ""
        monkeypatch.setattr("walrelay.observe.stalls.monotonic", lambda: self.now)
        self.seen = Seen()
        self.watch = StallWatch(self.seen, lambda: self.trouble, patience=5)

    def after(self, seconds: float, unsettled: int, *, settled: bool = False) -> list[Happening]:
        """What is said when `seconds` have passed."""
        self.now += seconds
        self.seen.happenings.clear()
        self.progress += settled
        self.watch.look(unsettled, self.progress)
        return list(self.seen.happenings)


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    return Watched(monkeypatch)


def test_nothing_is_said_before_patience_has_run_out(watched: Watched) -> None:
    assert watched.after(4.9, 3) == []


def test_a_stall_is_said_with_how_long_it_lasts_how_much_waits_and_why(watched: Watched) -> None:
    assert watched.after(5.5, 3) == [Stalled(5.5, 3, "")]


def test_a_stall_that_lasts_is_said_again_but_not_at_every_turn(watched: Watched) -> None:
    watched.after(6, 3)
    assert watched.after(1, 3) == watched.after(8, 4) == []
    assert watched.after(2, 4) == [Stalled(17.0, 4, "")]


@pytest.mark.parametrize(("unsettled", "settled"), [(2, True), (0, False)])
def test_a_receipt_or_nothing_left_to_wait_for_ends_a_stall(watched: Watched, unsettled: int, settled: bool) -> None:
    watched.after(6, 3)
    assert watched.after(1, unsettled, settled=settled) == [Resumed(7.0)]
    assert watched.after(4, 3) == []
    assert watched.after(2, 3) == [Stalled(6.0, 3, "")]


def test_idle_time_is_no_stall(watched: Watched) -> None:
    assert watched.after(3600, 0) == []
    assert watched.after(1, 1) == []


def test_receipts_now_and_then_are_no_stall(watched: Watched) -> None:
    for _ in range(5):
        assert watched.after(4, 10, settled=True) == []


def test_a_sink_in_trouble_waits_after_a_second_although_nothing_is_in_flight(watched: Watched) -> None:
    assert watched.after(100, 0) == []
    watched.trouble = "broker away"
    assert watched.after(0, 0) == watched.after(0.9, 0) == []
    assert watched.after(0.6, 0) == [Stalled(1.5, 0, "broker away", 1.5)]
    assert watched.after(5, 1) == []
    assert watched.after(5.5, 1) == [Stalled(12.0, 1, "broker away", 12.0)]
    watched.trouble = ""
    assert watched.after(0.5, 1) == [], "it may be between two attempts"
    assert watched.after(0.6, 1) == []
    assert [type(each) for each in watched.after(0.1, 0, settled=True)] == [Resumed]


def test_a_sink_that_goes_on_without_anything_in_flight_is_over(watched: Watched) -> None:
    watched.trouble = "broker away"
    watched.after(0, 0)
    watched.after(2, 0)
    watched.trouble = ""
    assert watched.after(0.5, 0) == []
    assert watched.after(1, 0) == [Resumed(3.5)]


def test_progress_of_other_sinks_neither_ends_nor_lengthens_the_wait_of_one(watched: Watched) -> None:
    watched.trouble = "audit: away"
    watched.after(0, 3)
    assert watched.after(2, 3) == [Stalled(2.0, 3, "audit: away", 2.0)]
    assert watched.after(9, 3, settled=True) == []
    assert watched.after(2, 3) == [Stalled(2.0, 3, "audit: away", 13.0)]


def test_a_run_that_ends_and_begins_again_is_no_progress(watched: Watched) -> None:
    watched.after(30, 3)
    watched.watch.begin(lambda: "")
    watched.progress = 0
    assert watched.after(1, 0) == [Stalled(31.0, 0, "")]
    assert watched.after(1, 3) == []
    assert watched.after(10, 3) == [Stalled(42.0, 3, "")]
    assert watched.after(1, 2, settled=True) == [Resumed(43.0)]


def test_what_an_earlier_run_owed_and_nothing_waits_for_is_over_after_a_while(watched: Watched) -> None:
    watched.after(30, 3)
    watched.watch.begin(lambda: "")
    watched.progress = 0
    assert watched.after(1, 0) == [Stalled(31.0, 0, "")]
    assert [type(each) for each in watched.after(5.5, 0)] == [Resumed]


@dataclass  # and so not hashable
class Broken:
    """An observer that cannot observe."""

    calls: int = 0

    def saw(self, happening: Happening) -> None:
        self.calls += 1
        raise OSError("no space left on device")


def test_of_several_observers_one_that_fails_stops_nobody_and_the_others_hear_of_it_once() -> None:
    broken, before, after = Broken(), Seen(), Seen()
    observers = Observers(before, broken, after)
    observers.saw(StandingBy("one"))
    observers.saw(StandingBy("two"))
    failure = Noticed("Broken failed: OSError: no space left on device")
    assert before.happenings == [StandingBy("one"), failure, StandingBy("two")]
    assert after.happenings == [failure, StandingBy("one"), StandingBy("two")]
    assert broken.calls == 3  # it may have been for once, so it is told on, of its own failure as well


def test_observers_that_all_fail_stop_nobody() -> None:
    Observers(Broken(), Broken()).saw(StandingBy("one"))
    Observers().saw(StandingBy("one"))
