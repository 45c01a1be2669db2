"""How long a polling worker sleeps, what the processes tell each other."""

from pathlib import Path

import pytest

from walrelay.cli.bench.latency import BESIDE, STRATEGIES
from walrelay.lab.bench import polling
from walrelay.lab.bench.processes import WAYS, Journal


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(polling, "monotonic", made)
    return made


def test_polls_are_at_fixed_times_however_long_they_take(clock: Clock) -> None:
    every = polling.Every(1.0)
    assert every.after(0) == 1.0
    clock.now = 101.25  # the poll at 101 took a quarter of a second
    assert every.after(7) == 0.75


def test_polls_that_were_missed_are_not_made_up_for(clock: Clock) -> None:
    every = polling.Every(0.5)
    clock.now = 103.1
    assert every.after(3) == pytest.approx(0.4)


def test_backing_off_doubles_after_three_empty_polls_up_to_a_minute() -> None:
    back_off = polling.BackOff()
    assert [back_off.after(0) for _ in range(10)] == [1, 1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert back_off.after(5) == 1
    assert [back_off.after(0) for _ in range(4)] == [1, 1, 2, 4]


def test_after_a_full_batch_there_is_no_pause() -> None:
    polled = iter([polling.BATCH, polling.BATCH, 3, 0])
    paused: list[int] = []
    polling.work(lambda: next(polled), paused.append, lambda: len(paused) == 2)
    assert paused == [3, 0]


def test_a_journal_is_read_as_it_grows_in_whole_lines(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal")
    assert journal.new() == []
    with journal.path.open("a", buffering=1) as file:
        file.write("[1,2]\n[3,")
        file.flush()
        assert journal.new() == [[1, 2]]
        file.write("4]\n")
        assert journal.new() == [[3, 4]]
    journal.close()


def test_the_command_line_knows_the_strategies_that_there_are() -> None:
    """Written there once more, so that `--help` needs nothing that may not be installed."""
    assert tuple(WAYS) == STRATEGIES + BESIDE
