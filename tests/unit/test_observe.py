"""A stall is said, repeated while it lasts, and said to be over."""

import pytest

from walrelay.observe import Observer, StallWatch


class Heard(Observer):
    def __init__(self) -> None:
        self.said: list[tuple[object, ...]] = []

    def stalled(self, seconds: float, unsettled: int, why: str) -> None:
        self.said.append(("stalled", seconds, unsettled, why))

    def resumed(self, seconds: float) -> None:
        self.said.append(("resumed", seconds))


class Watched:
    """A StallWatch and the time it sees."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        self.progress = 0
        monkeypatch.setattr("walrelay.observe.monotonic", lambda: self.now)
        self.heard = Heard()
        self.watch = StallWatch(self.heard, lambda: "broker away", patience=5)

    def after(self, seconds: float, unsettled: int, *, settled: bool = False) -> list[tuple[object, ...]]:
        """What is said when `seconds` have passed."""
        self.now += seconds
        self.heard.said.clear()
        self.progress += settled
        self.watch.saw(unsettled, self.progress)
        return list(self.heard.said)


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    return Watched(monkeypatch)


def test_nothing_is_said_before_patience_has_run_out(watched: Watched) -> None:
    assert watched.after(4.9, 3) == []


def test_a_stall_is_said_with_how_long_it_lasts_how_much_waits_and_why(watched: Watched) -> None:
    assert watched.after(5.5, 3) == [("stalled", 5.5, 3, "broker away")]


def test_a_stall_that_lasts_is_said_again_but_not_at_every_turn(watched: Watched) -> None:
    watched.after(6, 3)
    assert watched.after(1, 3) == watched.after(8, 4) == []
    assert watched.after(2, 4) == [("stalled", 17.0, 4, "broker away")]


@pytest.mark.parametrize(("unsettled", "settled"), [(2, True), (0, False)])
def test_a_receipt_or_nothing_left_to_wait_for_ends_a_stall(watched: Watched, unsettled: int, settled: bool) -> None:
    watched.after(6, 3)
    assert watched.after(1, unsettled, settled=settled) == [("resumed", 7.0)]
    assert watched.after(4, 3) == []
    assert watched.after(2, 3) == [("stalled", 6.0, 3, "broker away")]


def test_idle_time_is_no_stall(watched: Watched) -> None:
    assert watched.after(3600, 0) == []
    assert watched.after(1, 1) == []


def test_receipts_now_and_then_are_no_stall(watched: Watched) -> None:
    for _ in range(5):
        assert watched.after(4, 10, settled=True) == []


def test_an_observer_that_overrides_nothing_may_be_told_everything() -> None:
    observer = Observer()
    StallWatch(observer, lambda: "", patience=0).saw(1, 1)
    observer.noticed("hello")
    observer.retrying("because", 1, 0.1, False)
