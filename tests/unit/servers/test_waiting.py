"""Waiting for a condition."""

import pytest

from tests.servers.waiting import NotInTime, wait_until


def test_the_first_true_value_is_returned() -> None:
    values = iter([0, "", 3, 4])
    assert wait_until(lambda: next(values), 5, "a number", interval=0) == 3


def test_a_condition_that_stays_false_is_named() -> None:
    with pytest.raises(NotInTime, match=r"waited 0.01 s for pigs to fly"):
        wait_until(lambda: False, 0.01, "pigs to fly", interval=0.001)


def test_the_last_ignored_error_is_the_cause() -> None:
    nothing: dict[str, str] = {}
    with pytest.raises(NotInTime) as caught:
        wait_until(lambda: nothing["a"], 0.01, "a key", interval=0.001, ignoring=KeyError)
    assert isinstance(caught.value.__cause__, KeyError)


def test_other_errors_come_through() -> None:
    with pytest.raises(ZeroDivisionError):
        wait_until(lambda: 1 // 0, 5, "a number", ignoring=KeyError)
