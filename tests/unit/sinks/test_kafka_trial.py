"""The messages of a run's first transaction go one by one, and not for long where one gets no receipt."""

import pytest

from walrelay.sinks.kafka import batching as module
from walrelay.sinks.kafka.batching import Trial


class Now:
    """The clock of a trial."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> Now:
    clock = Now()
    monkeypatch.setattr(module, "monotonic", clock)
    return clock


@pytest.mark.usefixtures("now")
def test_a_message_is_taken_only_when_the_one_before_has_its_receipt() -> None:
    trial = Trial(lambda: False)
    assert trial.takes(7)
    trial.took(7)
    assert trial.waits
    assert not trial.takes(7)
    assert not trial.takes(8), "what is behind it would be published with each start"
    trial.settled()
    assert not trial.waits
    assert trial.takes(7)
    assert not trial.over


@pytest.mark.usefixtures("now")
def test_it_is_over_with_the_first_transaction() -> None:
    trial = Trial(lambda: False)
    trial.took(7)
    trial.settled()
    assert trial.takes(8)
    assert trial.over


@pytest.mark.usefixtures("now")
def test_a_large_transaction_is_not_tried_to_its_end() -> None:
    trial = Trial(lambda: False)
    taken = 0
    while trial.takes(7) and not trial.over:
        trial.took(7)
        trial.settled()
        taken += 1
    assert taken == 100


def test_a_partition_without_a_leader_holds_up_the_others_for_seconds_only(now: Now) -> None:
    trial = Trial(lambda: False)
    trial.took(7)
    now.seconds = 4.9
    assert not trial.takes(8)
    now.seconds = 5.1
    assert trial.takes(8)
    assert trial.over


def test_a_topic_that_is_not_there_is_waited_for_until_it_is_refused(now: Now) -> None:
    there = False
    trial = Trial(lambda: not there)
    trial.took(7)
    for seconds in range(20):
        now.seconds = seconds
        assert not trial.takes(8)
    there = True
    now.seconds = 30
    assert trial.takes(8)
    assert trial.over
