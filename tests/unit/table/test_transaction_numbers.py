"""The full number of a row's transaction from its 32 bits: never below the true one, whatever came round."""

import re

from hypothesis import given
from hypothesis import strategies as some

from walrelay.table.selection import xid8


def number(xmax: int, xmin: int) -> int:
    """What PostgreSQL makes of the expression; its arithmetic of 64 bits is Python's here."""
    return int(eval(re.sub(r"o\.xmin::text::int8", str(xmin), xid8(xmax)), {}))


@given(some.integers(3, 2**40), some.integers(0, 2**31))
def test_a_row_of_the_last_two_billion_transactions_is_known_exactly(xmax: int, age: int) -> None:
    true = xmax - 1 - min(age, xmax - 1)
    assert number(xmax, true % 2**32) == true


@given(some.integers(2**33, 2**40), some.integers(0, 2**33))
def test_a_row_so_old_that_the_bits_came_round_is_taken_for_a_later_one(xmax: int, age: int) -> None:
    true = xmax - 1 - age
    assert true <= number(xmax, true % 2**32) < xmax
