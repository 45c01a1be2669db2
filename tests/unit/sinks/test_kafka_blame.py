"""Who is to blame for a failed group, and what the sink does next."""

from confluent_kafka import KafkaError

from walrelay.errors import StartAnew
from walrelay.model import Message
from walrelay.sinks.kafka.batching import BatchingHistory
from walrelay.sinks.kafka.blame import culprits, why_the_run_ends
from walrelay.sinks.kafka.errors import Failure

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
