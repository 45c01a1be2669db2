"""One answer for all who ask within a moment."""

from threading import Barrier, Thread

import pytest

from walrelay.admin.remembered import Remembered


class Asked:
    def __init__(self, *answers: object) -> None:
        self.answers, self.now = [*answers], 0.0
        self.remembered = Remembered(self._ask, lambda _: 2.0, clock=lambda: self.now)

    def _ask(self) -> object:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def test_an_answer_is_good_for_a_while() -> None:
    asked = Asked(1, 2)
    assert asked.remembered() == asked.remembered() == 1
    asked.now = 2.0
    assert asked.remembered() == 2


def test_an_error_is_one_answer_too_so_that_nobody_waits_for_the_same_again() -> None:
    asked = Asked(ValueError("away"), 2)
    for _ in range(3):
        with pytest.raises(ValueError, match="away"):
            asked.remembered()
    asked.now = 1.0
    assert asked.remembered() == 2


def test_who_comes_while_it_is_asked_has_that_answer() -> None:
    asked, begin, heard = Asked("one"), Barrier(8), list[object]()

    def ask() -> None:
        begin.wait()
        heard.append(asked.remembered())

    threads = [Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert heard == ["one"] * 8
