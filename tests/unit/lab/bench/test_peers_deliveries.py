"""What the runner says about a list of arrivals."""

import pytest

from tests.bench.peers.consumer import Event, number_of
from tests.bench.peers.deliveries import (
    KEYS,
    Delivered,
    back_after,
    compare,
    counts_from,
    first_deliveries,
    latencies,
    percentile,
)


def arrivals(*numbers: int, partition: int = 0) -> list[Event]:
    """One a second, in the order given."""
    return [Event(number, float(at), partition, at, "") for at, number in enumerate(numbers)]


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (b'{"text": "xx", "number": 17}', 17),
        (b'{"number":17}', 17),
        (b'{"payload": "{\\"text\\": \\"xx\\", \\"number\\": 17}"}', 17),
        (b'{"after": "{\\"payload\\": \\"{\\\\\\"number\\\\\\": 17}\\"}"}', 17),
        (b'{"text": "xx"}', -1),
        (b"", -1),
        (None, -1),
    ],
)
def test_an_event_is_recognised_however_often_its_payload_was_escaped(value: bytes | None, number: int) -> None:
    assert number_of(value) == number


def test_everything_once_and_in_order_is_perfect() -> None:
    assert compare(range(3), arrivals(0, 1, 2)) == Delivered(3, 0, 0, 0, 0, 0)


def test_what_was_committed_and_never_arrived_is_lost() -> None:
    assert compare(range(5), arrivals(0, 4)).lost == 3


def test_every_further_arrival_of_an_event_is_a_duplicate() -> None:
    found = compare(range(2), arrivals(0, 1, 0, 1, 1))
    assert (found.events, found.duplicates, found.out_of_order) == (2, 3, 0)


def test_an_event_after_a_later_one_of_its_key_is_out_of_order() -> None:
    assert compare([0, KEYS, 2 * KEYS], arrivals(KEYS, 0, 2 * KEYS)).out_of_order == 1


def test_events_of_different_keys_may_come_in_any_order() -> None:
    assert compare(range(3), arrivals(2, 0, 1)).out_of_order == 0


def test_a_repetition_of_earlier_events_is_not_out_of_order() -> None:
    first, second = 0, KEYS
    assert compare([first, second], arrivals(first, second, first, second)).out_of_order == 0


def test_an_event_that_was_skipped_and_comes_with_a_repetition_is_out_of_order() -> None:
    first, second, third = 0, KEYS, 2 * KEYS
    assert compare([first, second, third], arrivals(first, third, first, second, third)).out_of_order == 1


def test_a_key_in_two_partitions_is_spread() -> None:
    assert compare([0, KEYS], [*arrivals(0), *arrivals(KEYS, partition=1)]).spread_keys == 1


def test_what_nobody_committed_is_strange() -> None:
    assert compare([0], arrivals(0, 7)).strange == 1


def test_the_first_of_several_arrivals_counts() -> None:
    assert first_deliveries(arrivals(5, 6, 5))[5].at == 0.0


def test_latency_is_to_the_first_receipt_of_an_event() -> None:
    found = latencies({0: -0.002, 1: 0.999}, arrivals(0, 1, 0))
    assert (round(found.p50, 6), round(found.max, 6), found.events) == (1.0, 2.0, 2)


def test_a_receipt_before_the_return_of_commit_is_no_latency() -> None:
    assert latencies({0: 0.5}, arrivals(0)).max == 0.0


def test_an_event_that_never_arrived_has_no_latency() -> None:
    assert latencies({0: 0.0, 1: 0.0}, arrivals(0)).events == 1


def test_a_commit_in_time_counts_from_its_return() -> None:
    assert counts_from(due=10.0, began=10.0005, committed=10.002) == 10.002


def test_a_commit_that_began_late_counts_earlier_by_that_much() -> None:
    assert counts_from(due=10.0, began=12.0, committed=12.002, grace=0.0) == pytest.approx(10.002)


@pytest.mark.parametrize(("percent", "value"), [(50, 50), (99, 99), (100, 100), (0, 1)])
def test_a_percentile_is_a_value_that_was_measured(percent: float, value: float) -> None:
    assert percentile(range(1, 101), percent) == value


def test_back_is_the_first_arrival_of_an_event_committed_after_the_kill() -> None:
    committed = {0: 0.0, 1: 0.9, 2: 1.5, 3: 1.6}
    assert back_after(1.0, committed, arrivals(0, 1, 1, 2, 3)) == 2.0


def test_what_was_under_way_at_the_kill_does_not_count_as_back() -> None:
    assert back_after(1.0, {0: 0.0, 1: 0.9, 2: 1.001}, arrivals(0, 1, 2)) is None
