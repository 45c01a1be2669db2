"""What a Kafka transaction holds: when it is whole, full and overdue, and which receipts it is worth."""

import pytest
from confluent_kafka import KafkaError

from walrelay.errors import StartAnew
from walrelay.lsn import LSN, ZERO
from walrelay.model import Message, Receipt, RelayPosition, System
from walrelay.sinks.kafka.batching import BatchingHistory
from walrelay.sinks.kafka.errors import Failure
from walrelay.sinks.kafka.group import Group, GroupLimits, Offer, culprits, why_the_run_ends

BEGIN = RelayPosition(System("7301", 1), "slot", ZERO)
LIMITS = GroupLimits(messages=3, bytes=100, interval=0.5, longest=20.0)


def group(*, keeps_offers: bool = False) -> Group:
    """Open since 10.0."""
    found = Group(LIMITS, BEGIN, keeps_offers=keeps_offers)
    found.open(10.0)
    return found


def message(value: bytes | None = b"1") -> Message:
    return Message("orders", b"key", value, [], 0)


def mark(group: Group, lsn: int, *, ordinal: int = 0, now: float = 10.0) -> None:
    group.set_mark(BEGIN._replace(lsn=LSN(lsn), ordinal=ordinal), now)


def test_a_group_is_whole_only_where_a_transaction_ended_behind_all_that_was_taken() -> None:
    each = group()
    assert each.is_whole
    each.take(1, message())
    assert not each.is_whole, "its transaction goes on"
    mark(each, 100, ordinal=1)
    assert not each.is_whole, "the mark is inside the transaction"
    mark(each, 100)
    assert each.is_whole


def test_receipts_count_the_messages_of_each_transaction() -> None:
    each = group()
    each.take(1, message())
    each.take(1, message())
    mark(each, 100)
    each.take(2, message())
    mark(each, 200)
    mark(each, 300)  # a transaction without a message
    assert each.committed() == [Receipt(1, 2), Receipt(2, 1)]


def test_messages_behind_the_mark_have_no_receipt_yet() -> None:
    each = group()
    each.take(1, message())
    mark(each, 100, ordinal=1)
    each.take(1, message())
    assert each.committed() == [Receipt(1, 1)]
    assert each.pending == 1


@pytest.mark.parametrize(
    ("count", "size", "after", "full"),
    [
        (2, 1, 0.0, False),
        (3, 1, 0.0, True),
        (1, 99, 0.0, False),
        (1, 100, 0.0, True),
        (1, 1, 0.49, False),
        (1, 1, 0.5, True),
    ],
)
def test_a_group_is_full_by_messages_bytes_or_time(count: int, size: int, after: float, full: bool) -> None:
    each = group()
    for _ in range(count):
        each.take(1, message(b"x" * size))
    mark(each, 100)
    assert each.is_full(10.0 + after) is full


def test_a_group_is_overdue_after_its_longest_time_and_not_before() -> None:
    each = group()
    assert not each.is_overdue(30.0)
    assert each.is_overdue(30.1)


def test_the_next_group_is_empty_and_goes_on_from_the_mark() -> None:
    each = group(keeps_offers=True)
    for number in range(4):
        each.take(number, message(b"x" * 50))
    mark(each, 100)
    assert each.is_full(10.0)
    each.committed()
    each.open(20.0)
    assert not each.is_full(20.4)
    assert (each.messages, each.offers, each.committed()) == (0, [], [])
    assert each.mark.lsn == LSN(100)


def test_what_was_taken_is_kept_in_its_order_where_it_may_have_to_be_searched() -> None:
    batched, unbatched = group(), group(keeps_offers=True)
    for each in (batched, unbatched):
        each.take(1, message(b"a"))
        each.take(2, message(None))
    assert batched.offers == []
    assert unbatched.offers == [Offer(1, message(b"a")), Offer(2, message(None))]


def test_the_time_since_the_mark_tells_that_the_stream_is_drained() -> None:
    each = group()
    mark(each, 100, now=10.2)
    assert each.unmarked_for(10.5) == pytest.approx(0.3)


TOO_LARGE = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)
PURGED = KafkaError(KafkaError._PURGE_QUEUE)


def failure(ticket: int, error: KafkaError = TOO_LARGE, *, certain: bool = True) -> Failure:
    return Failure(ticket, Message("orders", None, b"1", [], 0), error, certain)


def test_culprits_are_messages_that_were_refused_themselves() -> None:
    failures = [failure(1, PURGED), failure(2), failure(3, certain=False), failure(4)]
    assert [each.ticket for each in culprits(failures)] == [2, 4]


def test_a_refused_batch_has_the_next_run_send_each_message_alone() -> None:
    history = BatchingHistory()
    ended = why_the_run_ends([failure(1, PURGED), failure(2, certain=False)], None, "slot", history)
    assert isinstance(ended, StartAnew)
    assert "refused a batch of messages for topic 'orders'" in str(ended)
    assert history.batch_refused


def test_a_refused_batch_counts_more_than_what_broke_because_of_it() -> None:
    broken = KafkaError(KafkaError._INCONSISTENT)
    assert isinstance(why_the_run_ends([failure(1, certain=False)], broken, "slot", BatchingHistory()), StartAnew)


def test_a_producer_that_was_fenced_says_that_another_instance_publishes() -> None:
    history = BatchingHistory()
    for code in (KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH):
        ended = why_the_run_ends([], KafkaError(code), "orders_slot", history)
        assert "another instance publishes for slot 'orders_slot' now" in str(ended)
        assert not isinstance(ended, StartAnew)
    assert not history.batch_refused


def test_any_other_failure_is_an_aborted_transaction() -> None:
    for failures, broken in (([], PURGED), ([failure(1, PURGED)], None)):
        assert "transaction was aborted" in str(why_the_run_ends(failures, broken, "slot", BatchingHistory()))
