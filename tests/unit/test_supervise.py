"""Running again: what is retried, after which pause, and what is said."""

import select
from collections.abc import Callable, Iterable, Iterator

import pytest

from tests.seen import Seen
from walrelay.errors import Fatal, LedgerError, NoRoom, NotConnected, Retryable, StartAnew, Waiting
from walrelay.observe import Retrying
from walrelay.supervise import Backoff, Retries, Stop, supervise

_BACKOFF = Backoff()


class Heard(Seen):
    @property
    def attempts(self) -> list[tuple[str, int]]:
        return [(each.cause, each.attempt) for each in self.of(Retrying) if not each.again]

    @property
    def lasting(self) -> list[tuple[str, int]]:
        return [(each.cause, each.attempt) for each in self.of(Retrying) if each.lasting and not each.again]


class Supervised:
    """`supervise` over runs that are given as the errors they end in; None ends in good order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr("walrelay.supervise.monotonic", lambda: self.now)
        monkeypatch.setattr("walrelay.supervise.uniform", lambda low, high: high)
        self.heard, self.waits = Heard(), list[float]()
        self.runs = 0
        self.progress: Callable[[], object] = lambda: None
        self.stop: Callable[[], bool] = lambda: False

    def run(self, outcomes: Iterable[BaseException | None], backoff: Backoff = _BACKOFF) -> None:
        remaining: Iterator[BaseException | None] = iter(outcomes)

        def one() -> None:
            self.runs += 1
            if error := next(remaining):
                raise error

        retries = Retries(lambda: self.progress(), self.heard, backoff)
        supervise(one, lambda: self.stop(), self._wait, self.heard, retries)

    def _wait(self, seconds: float) -> None:
        self.now += seconds
        self.waits.append(seconds)


@pytest.fixture
def supervised(monkeypatch: pytest.MonkeyPatch) -> Supervised:
    return Supervised(monkeypatch)


def test_a_run_that_ends_in_good_order_is_the_last(supervised: Supervised) -> None:
    supervised.run([None])
    assert (supervised.runs, supervised.waits, supervised.heard.attempts) == (1, [], [])


def test_what_can_be_retried_is_retried_after_pauses_that_double_up_to_the_longest(supervised: Supervised) -> None:
    supervised.run([*(Retryable("down") for _ in range(6)), None], Backoff(first=1, longest=10))
    assert supervised.waits == [1, 2, 4, 8, 10, 10]
    assert supervised.runs == 7


@pytest.mark.parametrize("error", [Fatal("no"), LedgerError("bug"), RuntimeError("worse"), KeyboardInterrupt()])
def test_anything_else_comes_through_at_once(supervised: Supervised, error: BaseException) -> None:
    with pytest.raises(type(error)):
        supervised.run([error, None])
    assert (supervised.runs, supervised.waits) == (1, [])


def test_a_run_that_got_anywhere_makes_the_next_pause_the_first_again(supervised: Supervised) -> None:
    supervised.progress = lambda: supervised.runs // 3
    supervised.run([*(Retryable("down") for _ in range(5)), None], Backoff(first=1, longest=100))
    assert supervised.waits == [1, 2, 1, 2, 4]


def test_a_cause_may_cap_its_pause(supervised: Supervised) -> None:
    supervised.run([*(Retryable("busy", retry_within=1.5) for _ in range(4)), None], Backoff(first=1, longest=30))
    assert supervised.waits == [1, 1.5, 1.5, 1.5]


def test_a_cause_is_said_once_and_again_after_a_while_or_when_it_changes(supervised: Supervised) -> None:
    causes = ["down"] * 5 + ["busy"] * 2
    supervised.run([*map(Waiting, causes), None], Backoff(first=10, longest=10))
    assert supervised.heard.attempts == [("down", 1), ("down", 4), ("busy", 6)]


def test_a_cause_that_lasts_is_told_again_as_such_with_the_third_failure_in_a_row(supervised: Supervised) -> None:
    supervised.run([*(Retryable("down") for _ in range(4)), None], Backoff(first=1, longest=1))
    hinted = "down; 3 times in a row without progress (hint: `walrelay doctor` says what is missing)"
    assert supervised.heard.attempts == [("down", 1), (hinted, 3)]
    assert supervised.heard.lasting == [(hinted, 3)]


def test_a_cause_that_lasts_keeps_its_own_hint(supervised: Supervised) -> None:
    supervised.run([*(NotConnected("refused", hint="mend it") for _ in range(3)), None], Backoff(first=1, longest=1))
    ((cause, _),) = supervised.heard.lasting
    assert cause.endswith("(hint: mend it; `walrelay doctor` says what is missing)")


def test_only_the_same_cause_is_counted(supervised: Supervised) -> None:
    causes = [Retryable(text) for text in ("down", "busy", "down", "down", "down")]
    supervised.run([*causes, None], Backoff(first=20, longest=20))
    hint = " (hint: `walrelay doctor` says what is missing)"
    counted = "down; 3 times in a row without progress"
    assert supervised.heard.lasting == [(f"down{hint}", 3), (f"{counted}{hint}", 5)]


@pytest.mark.parametrize("kind", [Waiting, StartAnew, NoRoom])
def test_what_is_waited_for_or_begun_anew_by_choice_is_nothing_to_look_at(
    supervised: Supervised, kind: type[Retryable]
) -> None:
    supervised.run([*(kind("so be it") for _ in range(9)), None], Backoff(first=1, longest=1))
    assert supervised.heard.lasting == []


def test_failures_between_which_runs_got_anywhere_do_not_last(supervised: Supervised) -> None:
    supervised.progress = lambda: supervised.runs // 2
    supervised.run([*(Retryable("down") for _ in range(9)), None], Backoff(first=1, longest=1))
    assert supervised.heard.lasting == []


def test_a_stop_while_it_only_waited_is_in_good_order(supervised: Supervised) -> None:
    supervised.stop = lambda: supervised.runs > 1
    supervised.run([Waiting("in use"), Waiting("in use")])
    assert supervised.heard.notices == []


def test_a_stop_while_it_waited_after_a_run_that_broke_is_not(supervised: Supervised) -> None:
    """What that run had under way may come again."""
    supervised.stop = lambda: supervised.runs > 1
    supervised.run([Retryable("down"), Waiting("in use")])
    assert supervised.heard.notices == ["stopped, but not cleanly: in use"]


def test_a_stop_during_the_pause_begins_no_other_run(supervised: Supervised) -> None:
    supervised.stop = lambda: bool(supervised.waits)
    supervised.run([Retryable("down"), None])
    assert supervised.runs == 1


def test_a_run_that_ends_in_an_error_after_a_stop_is_the_last_and_said_not_to_be_in_good_order(
    supervised: Supervised,
) -> None:
    supervised.stop = lambda: supervised.runs > 0
    supervised.run([Retryable("down"), None])
    assert (supervised.runs, supervised.waits, supervised.heard.attempts) == (1, [], [])
    assert supervised.heard.notices == ["stopped, but not cleanly: down"]


def test_a_stop_before_the_first_run_begins_none(supervised: Supervised) -> None:
    supervised.stop = lambda: True
    supervised.run([])
    assert supervised.runs == 0


def test_pauses_are_shortened_at_random_so_that_relays_do_not_come_back_together() -> None:
    pauses = {Backoff(first=8, longest=8).pause(1, None) for _ in range(50)}
    assert len(pauses) > 40
    assert all(4 <= pause <= 8 for pause in pauses)


def test_a_pause_is_a_number_after_any_count_of_failures() -> None:
    assert 15 <= Backoff().pause(10_000, None) <= 30


def test_a_stop_can_be_waited_for_beside_a_socket() -> None:
    stop = Stop()
    assert select.select([stop], [], [], 0) == ([], [], [])
    stop.set()
    stop.set()
    assert stop.is_set()
    assert select.select([stop], [], [], 0) == ([stop], [], [])
