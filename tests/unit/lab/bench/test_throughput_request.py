"""What can be asked of `walrelay bench throughput`."""

import pytest

from walrelay.lab.bench.results import (
    POLLED_EVENTS,
    READERS,
    ThroughputRequest,
    reader_names,
    rows_per_transaction,
    turns,
)


@pytest.mark.parametrize(("text", "number"), [("1", 1), ("10", 10), ("1000", 1000), ("all", None)])
def test_rows_per_transaction_is_a_number_or_all(text: str, number: int | None) -> None:
    assert rows_per_transaction(text) == number


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "", "ten", "ALL", "²", "1 000"])
def test_other_rows_per_transaction_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="neither a number from 1 on nor 'all'"):
        rows_per_transaction(text)


def test_names_come_in_the_readers_order_and_once() -> None:
    assert reader_names(" mock,limit, mock") == ["limit", "mock"]


@pytest.mark.parametrize("text", ["", "nul", "limit,", "limit;null"])
def test_unknown_names_are_refused_with_those_there_are(text: str) -> None:
    with pytest.raises(
        ValueError,
        match="not among limit, null, null-metrics, mock, mock-metrics, kafka, exactly-once, wal2json, polling",
    ):
        reader_names(text)


def test_everybody_is_first_once() -> None:
    readers = ["limit", "null", "mock"]
    rounds = [turns(readers, number) for number in range(4)]
    assert [each[0] for each in rounds] == ["limit", "null", "mock", "limit"]
    assert all(sorted(each) == sorted(readers) for each in rounds)


def test_the_polling_worker_is_given_a_part_of_a_large_backlog() -> None:
    large, small = ThroughputRequest(events=10 * POLLED_EVENTS), ThroughputRequest(events=100)
    assert [large.expected(name) for name in ("limit", "polling")] == [10 * POLLED_EVENTS, POLLED_EVENTS]
    assert {small.expected(name) for name in READERS} == {100}
