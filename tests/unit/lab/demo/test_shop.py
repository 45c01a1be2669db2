"""The shop: what consumers of an order may rely on."""

import json

from tests.unit.lab.demo.orders import CHANGE
from walrelay.lab.demo.events import changes


def test_as_many_changes_as_asked_for_are_not_rolled_back() -> None:
    assert sum(not change.rolled_back for change in changes("A", 1000)) == 1000
    assert list(changes("A", 0)) == []


def test_the_steps_of_each_order_are_without_a_gap() -> None:
    reached: dict[str, int] = {}
    for change in changes("A", 1000):
        assert change.step == reached.get(change.order.id, 0) + 1
        if not change.rolled_back:
            reached[change.order.id] = change.step


def test_some_are_rolled_back_and_several_orders_are_open() -> None:
    some = list(changes("A", 100))
    assert any(change.rolled_back for change in some)
    assert len({change.order.id for change in some[:10]}) > 2


def test_counters_have_orders_of_their_own() -> None:
    orders = [{change.order.id for change in changes(counter, 100)} for counter in "AB"]
    assert not orders[0] & orders[1]


def test_a_payload_says_the_step_and_the_total() -> None:
    payload = json.loads(CHANGE.payload)
    assert (payload["step"], payload["total"], CHANGE.type, CHANGE.status) == (1, 25.0, "OrderPlaced", "placed")
