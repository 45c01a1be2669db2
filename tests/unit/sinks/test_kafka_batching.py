"""Batches are given up after one was refused, and tried again when enough messages passed without them."""

from confluent_kafka import KafkaError

from walrelay.sinks.kafka.batching import BatchingHistory


def test_batches_are_tried_again_after_a_thousand_messages_and_then_after_twice_as_many() -> None:
    history = BatchingHistory()
    for needed in (1_000, 2_000, 4_000):
        history.without_batches("orders", KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))
        history.unbatched_messages_passed(needed - 1)
        assert not history.may_batch_again
        history.unbatched_messages_passed(1)
        assert history.may_batch_again
        assert f"{needed} messages went through one by one" in str(history.with_batches_again())
        assert not history.batch_refused


def test_a_message_that_fails_alone_begins_the_count_again() -> None:
    history = BatchingHistory()
    history.without_batches("orders", KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))
    history.unbatched_messages_passed(999)
    history.unbatched_message_failed()
    history.unbatched_messages_passed(999)
    assert not history.may_batch_again
    history.unbatched_messages_passed(1)
    assert history.may_batch_again


def test_batches_that_nobody_refused_need_not_be_tried_again() -> None:
    history = BatchingHistory()
    history.unbatched_messages_passed(1_000)
    assert not history.may_batch_again
