"""Several relays of one process: the end of one is its own, and the process ends with the last."""

from collections.abc import Callable
from threading import Event, Thread, current_thread, main_thread

import pytest

from tests.servers.waiting import wait_until
from walrelay.errors import Fatal
from walrelay.supervise import SideBySide, Stop

OVER = 20.0  # seconds: nothing here takes as long


class Told:
    def __init__(self) -> None:
        self.ends = list[tuple[str, str, int]]()

    def __call__(self, name: str, error: Exception, others: int) -> None:
        self.ends.append((name, str(error), others))


def until(stop: Stop, reached: Event) -> Callable[[], None]:
    """A relay that runs until it is asked to stop."""

    def relay() -> None:
        reached.set()
        assert stop.wait(OVER)

    return relay


def failing(error: Exception) -> Callable[[], None]:
    def relay() -> None:
        raise error

    return relay


def test_all_run_until_the_stop_and_end_in_good_order() -> None:
    stop, told, reached = Stop(), Told(), [Event() for _ in range(3)]
    done = list[bool]()
    relays = SideBySide({str(n): until(stop, each) for n, each in enumerate(reached)}, stop, told)
    thread = Thread(target=lambda: done.append(relays.run()))
    thread.start()
    assert all(each.wait(OVER) for each in reached), "they run at the same time"
    assert done == []
    stop.set()
    thread.join(OVER)
    assert (done, told.ends) == ([True], [])


@pytest.mark.parametrize("error", [Fatal("the slot is gone"), ZeroDivisionError("a bug")])
def test_one_that_ends_is_told_again_and_again_while_the_others_go_on(error: Exception) -> None:
    stop, told, reached = Stop(), Told(), Event()
    done = list[bool]()
    relays = SideBySide({"a": failing(error), "b": until(stop, reached)}, stop, told, again=0.01)
    thread = Thread(target=lambda: done.append(relays.run()))
    thread.start()
    assert reached.wait(OVER)
    wait_until(lambda: len(told.ends) > 2, OVER, "the error to be told again")
    assert set(told.ends) == {("a", str(error), 1)}
    assert not stop.is_set()
    stop.set()
    thread.join(OVER)
    assert done == [False], "something outside has to see it"


def test_when_none_runs_any_more_the_process_ends() -> None:
    told = Told()
    assert not SideBySide({name: failing(Fatal(name)) for name in "abc"}, Stop(), told).run()
    assert sorted({name for name, _, _ in told.ends}) == ["a", "b", "c"]


def test_a_single_relay_needs_no_thread() -> None:
    threads = []
    assert SideBySide({"": lambda: threads.append(current_thread())}, Stop(), Told()).run()
    assert threads == [main_thread()]
    told = Told()
    assert not SideBySide({"": failing(Fatal("so"))}, Stop(), told).run()
    assert told.ends == [("", "so", 0)]
