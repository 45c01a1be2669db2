"""Rows of the outbox by what an operator asks for, and the numbers of their transactions."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as some

from walrelay.errors import Fatal
from walrelay.table.filters import Filters, filter_condition
from walrelay.table.selection import TableDescription, all_of, xid8

UUID, INT8, TEXT = 2950, 20, 25
ROLES = {"aggregate_type": "kind", "aggregate_id": "of%", "type": "type"}


def table(id_type: int = UUID, time: str = "o.created_at") -> TableDescription:
    types = {"id": id_type, "kind": TEXT, "of%": TEXT, "type": TEXT}
    return TableDescription("outbox", types, False, "id", (), time, "", False)


def test_no_filter_is_no_condition() -> None:
    assert filter_condition(table(), ROLES, Filters()) == ("true", [])


def test_all_filters_count_and_values_are_parameters() -> None:
    text, parameters = filter_condition(
        table(), ROLES, Filters(since="2026-11-21", types=["A", "B"], aggregates=[("order", "1"), ("customer", None)])
    )
    assert text == (
        "coalesce(o.created_at, 'infinity') >= %s::timestamptz"
        ' AND ((o."kind"::text = %s::text AND o."of%%"::text = ANY (%s::text[])) OR o."kind"::text = %s::text)'
        ' AND o."type"::text = ANY (%s::text[])'
    )
    assert parameters == ["2026-11-21", "order", ["1"], "customer", ["A", "B"]]


@pytest.mark.parametrize(
    ("id_type", "cast", "parameter"),
    [
        (UUID, "uuid", ["a8098c1a-f86e-11da-bd1a-00112444be1e"]),
        (INT8, "int8", [17]),
        (TEXT, "text", ["17", "A8098C1AF86E11DABD1A00112444BE1E", str(2**70)]),
    ],
)
def test_ids_are_compared_in_the_columns_own_type_and_what_no_id_can_be_is_left_out(
    id_type: int, cast: str, parameter: list[object]
) -> None:
    asked = ["17", "A8098C1AF86E11DABD1A00112444BE1E", str(2**70)]
    text, parameters = filter_condition(table(id_type), ROLES, Filters(ids=asked))
    assert f"%s::{cast}[]" in text
    assert parameters == [parameter]


def test_no_ids_are_no_rows() -> None:
    assert filter_condition(table(), ROLES, Filters(ids=[])).parameters == [[]]


@pytest.mark.parametrize(
    ("filters", "text"),
    [
        (Filters(types=["A"]), "--type needs a column for type"),
        (Filters(aggregates=[("order", None)]), "--aggregate needs a column for aggregate_type"),
        (Filters(until="2026-11-21"), "a period needs times"),
    ],
)
def test_a_column_that_a_filter_needs_is_named(filters: Filters, text: str) -> None:
    with pytest.raises(Fatal, match=text) as caught:
        filter_condition(table(time=""), dict.fromkeys(ROLES), filters)
    assert "outbox.columns" in caught.value.hint


def test_conditions_are_joined_with_their_parameters_in_order() -> None:
    first, second = (filter_condition(table(), ROLES, Filters(types=[name])) for name in "AB")
    joined = all_of(first, second)
    assert joined.text.count(" AND ") == 1
    assert joined.parameters == [["A"], ["B"]]


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
