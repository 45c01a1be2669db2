"""What the demo counts, and what it calls a kept promise."""

import pytest

from tests.unit.lab.demo.orders import committed
from walrelay.lab.demo.events import Delivered, DemoTally, LatencyQuantiles

MS = 1_000_000


def test_latency_is_from_the_commit_to_the_arrival() -> None:
    tally = DemoTally()
    assert tally.commit(committed("1", 10 * MS)) is None
    assert tally.arrive(Delivered("1", "A", 1, 13 * MS)) == 3.0
    assert tally.result().latency_ms == LatencyQuantiles(3.0, 3.0, 3.0)


def test_an_event_that_overtakes_the_answer_to_its_commit_took_no_time() -> None:
    tally = DemoTally()
    assert tally.arrive(Delivered("1", "A", 1, 9 * MS)) is None
    assert tally.commit(committed("1", 10 * MS)) == 0.0
    assert tally.result().lost == 0


def test_percentiles_are_latencies_that_were_measured() -> None:
    tally = DemoTally()
    for number in range(1, 201):
        tally.commit(committed(str(number), 0))
        tally.arrive(Delivered(str(number), "A", number, number * MS))
    assert tally.result().latency_ms == LatencyQuantiles(100.0, 198.0, 200.0)


def test_what_never_arrives_is_lost() -> None:
    tally = DemoTally()
    tally.commit(committed("1", 0))
    tally.commit(committed("2", 0))
    tally.arrive(Delivered("2", "A", 2, MS))
    assert tally.result().lost == 1
    assert not tally.result().kept


def test_a_repetition_is_counted_once_and_breaks_no_promise() -> None:
    tally = DemoTally()
    for number in (1, 2):
        tally.commit(committed(str(number), 0))
        tally.arrive(Delivered(str(number), "A", number, MS))
    assert tally.arrive(Delivered("1", "A", 1, 2 * MS)) is None
    result = tally.result()
    assert (result.events, result.lost, result.duplicates, result.out_of_order) == (2, 0, 1, 0)
    assert result.kept


def test_order_is_asked_of_the_events_of_one_key_only() -> None:
    tally = DemoTally()
    for event, key, step in (("1", "A", 2), ("2", "B", 1), ("3", "A", 1), ("4", "A", 3)):
        tally.commit(committed(event, 0))
        tally.arrive(Delivered(event, key, step, MS))
    assert tally.result().out_of_order == 1
    assert not tally.result().kept


def test_what_was_rolled_back_must_not_arrive() -> None:
    tally = DemoTally()
    tally.rollback()
    assert tally.result().kept
    tally.arrive(Delivered("1", "A", 1, MS))
    result = tally.result()
    assert (result.rolled_back, result.uncommitted, result.kept) == (1, 1, False)


def test_events_a_second_are_from_the_first_commit_to_the_last_arrival() -> None:
    tally = DemoTally()
    for number in range(10):
        tally.commit(committed(str(number), number * 100 * MS))
        tally.arrive(Delivered(str(number), "A", number, (number + 1) * 100 * MS))
    assert tally.result().events_per_second == pytest.approx(10.0)


def test_nothing_at_all_is_a_result_too() -> None:
    assert DemoTally().result().events_per_second == 0
