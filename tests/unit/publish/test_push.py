"""When a sink is told to let go of what it gathers."""

from typing import cast

import pytest

from walrelay.publish import Push, Sink


class Flushed:
    def __init__(self) -> None:
        self.count = 0

    def flush(self, timeout: float) -> None:
        assert timeout <= 0.01, "the loop has other things to do"
        self.count += 1


@pytest.fixture
def sink() -> Flushed:
    return Flushed()


@pytest.fixture
def push(sink: Flushed) -> Push:
    return Push(cast(Sink, sink))


def test_without_messages_the_stream_is_waited_for_as_long_as_the_relay_likes(push: Push, sink: Flushed) -> None:
    assert push.wait(0.2) == 0.2
    push.drained()
    assert sink.count == 0


def test_a_few_messages_are_pushed_out_as_soon_as_no_frame_is_ready(push: Push, sink: Flushed) -> None:
    push.handed_over(3)
    assert push.wait(0.2) == 0
    push.drained()
    assert sink.count == 1


def test_many_messages_are_pushed_out_after_a_gap(push: Push, sink: Flushed) -> None:
    for _ in range(10):
        push.handed_over(50)
    assert 0 < push.wait(0.2) < 0.01
    assert sink.count == 0


def test_a_push_is_repeated_because_a_busy_machine_may_miss_one_but_not_for_ever(push: Push, sink: Flushed) -> None:
    push.handed_over(3)
    push.drained()
    assert push.wait(0.2) == 0, "a thread that wakes up between two pushes sends nothing"
    for _ in range(10):
        push.drained()
    assert sink.count == 3
    assert push.wait(0.2) == 0.2


def test_a_push_is_not_repeated_when_everything_is_settled(push: Push, sink: Flushed) -> None:
    push.handed_over(3)
    push.drained()
    push.settled()
    assert push.wait(0.2) == 0.2
    push.drained()
    assert sink.count == 1


def test_messages_that_come_between_two_pushes_are_pushed_at_once(push: Push, sink: Flushed) -> None:
    push.handed_over(3)
    push.drained()
    push.handed_over(1)
    assert push.wait(0.2) == 0
