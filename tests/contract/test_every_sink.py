"""What every sink owes the relay (walrelay.publish.Sink), tested against its real broker."""

import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing

import pytest

from tests.contract.cases import KAFKA, Case, held, message, numbers
from tests.servers.waiting import wait_until
from walrelay.model import Receipt
from walrelay.publish import Sink

KEYS = ["a", "b", "c", "d"]
MANY = 2000
MARKER = 1_000_000

can_be_away = pytest.mark.parametrize("case", ["stdout", "mock", KAFKA], indirect=True)


def publish(sink: Sink, case: Case, numbered: range, *, ticket: int = 0, size: int = 0) -> Counter[int]:
    """Publishes as the relay does, offering a message again until there is room; what was settled meanwhile."""
    settled: Counter[int] = Counter()
    for number in numbered:
        while not sink.publish(message(case, number, size=size), ticket):
            settled += receipts(sink, 0.05)
    return settled


def receipts(sink: Sink, timeout: float) -> Counter[int]:
    """ticket -> messages that became durable since the last call; a refusal fails the test."""
    counts: Counter[int] = Counter()
    for receipt in sink.receipts(timeout):
        assert isinstance(receipt, Receipt), receipt
        assert receipt.messages > 0
        counts[receipt.ticket] += receipt.messages
    return counts


def settle(sink: Sink, count: int, settled: Counter[int] | None = None, timeout: float = 20) -> Counter[int]:
    """Returns when so many messages are durable."""
    total = settled or Counter()

    def enough() -> bool:
        sink.flush(0.05)
        total.update(receipts(sink, 0.05))
        return total.total() >= count

    wait_until(enough, timeout, f"{count} receipts")
    return total


def test_messages_of_a_key_arrive_in_the_order_they_were_published(case: Case) -> None:
    with closing(case.open()) as sink:
        for number in range(MANY):
            for key in KEYS:
                assert sink.publish(message(case, number, key=key), ticket=0)
        settle(sink, MANY * len(KEYS))
    arrived = case.arrived()
    assert {key: numbers(arrived, key) for key in KEYS} == {key: list(range(MANY)) for key in KEYS}
    assert arrived[0].headers == [("id", b"0"), ("position", b"0/1:0")]


@can_be_away
def test_no_room_means_that_nothing_was_taken(case: Case) -> None:
    size, accepted, refused = 10_000, 0, False
    with closing(case.open(room=50)) as sink:
        with held(case):
            while sink.publish(message(case, accepted, size=size), ticket=0):
                accepted += 1
                assert accepted < 10_000, "there is always room while nothing moves"
            refused = not sink.publish(message(case, accepted, size=size), ticket=0)
        settled = publish(sink, case, range(accepted, accepted + 100), size=size)
        assert refused
        settle(sink, accepted + 100, settled)
    assert numbers(case.arrived()) == list(range(accepted + 100))


def test_receipts_count_each_transaction_exactly(case: Case) -> None:
    sizes = {7: 1, 8: 300, 9: 2, 12: 50}
    settled: Counter[int] = Counter()
    with closing(case.open()) as sink:
        for ticket, count in sizes.items():
            settled += publish(sink, case, range(count), ticket=ticket)
            settled += receipts(sink, 0)
        assert settle(sink, sum(sizes.values()), settled) == sizes
        assert receipts(sink, 0.1) == Counter()


@can_be_away
def test_no_call_waits_longer_than_it_may_while_the_broker_is_away(case: Case) -> None:
    with closing(case.open(room=100)) as sink, held(case):
        assert max(seconds(lambda: sink.publish(message(case, 0, size=10_000), 0)) for _ in range(300)) < 0.5
        list(sink.receipts(1))  # a pipe still takes some
        assert seconds(lambda: list(sink.receipts(0.2))) < 1
        assert seconds(lambda: sink.flush(0.2)) < 1


@can_be_away
def test_close_lets_go_of_what_has_no_receipt(case: Case) -> None:
    """What was on its way already may arrive, in order; the next run publishes all of it again."""
    size = 1000
    with closing(case.open()) as sink:
        settled = settle(sink, 10, publish(sink, case, range(10), size=size)).total()
        with held(case):
            number = 10
            while number < 9000 and sink.publish(message(case, number, size=size), ticket=1):
                number += 1
            settled += receipts(sink, 0.2).total()
            assert seconds(sink.close) < 2
            sink.close()
    with closing(case.open()) as successor:
        assert successor.publish(message(case, MARKER), ticket=0)
        settle(successor, 1)
    *arrived, last = numbers(case.arrived())
    assert last == MARKER
    assert arrived == list(range(len(arrived)))
    assert settled <= len(arrived) < number


def test_close_may_be_called_twice(case: Case) -> None:
    sink = case.open()
    sink.publish(message(case, 0), ticket=0)
    sink.close()
    sink.close()


def seconds(call: Callable[[], object]) -> float:
    """How long it takes."""
    began = time.monotonic()
    call()
    return time.monotonic() - began
