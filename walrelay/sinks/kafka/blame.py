"""The blame after a failed group: which messages are the culprits, and what the sink does next. Pure.

A refused batch names no message: the report of a message that was sent says only what the whole batch met. So the next
run sends each message alone. Then a refusal is certain, and further refused messages are searched for before the run
ends. A failure that is about no message ends the run, and the next one begins at the position.
"""

from collections.abc import Sequence

from confluent_kafka import KafkaError

from walrelay.errors import Retryable
from walrelay.sinks.kafka.batching import BatchingHistory
from walrelay.sinks.kafka.errors import Failure

_FENCED = {KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH}


def culprits(failures: Sequence[Failure]) -> list[Failure]:
    """The failures that name a refused message."""
    return [each for each in failures if each.is_refusal and each.certain]


def why_the_run_ends(
    failures: Sequence[Failure], broken: KafkaError | None, slot: str, history: BatchingHistory
) -> Retryable:
    """The error where no culprit is known. `broken`: why the producer takes nothing more; it or a failure is there.

    A refused batch is noted in `history`, which the next run begins with.
    """
    for each in failures:
        if each.is_refusal:
            return history.without_batches(each.message.topic, each.error)
    error = broken or failures[0].error
    if error.code() in _FENCED:
        return Retryable(f"another instance publishes for slot {slot!r} now: {error.str()}")
    return Retryable(f"the Kafka transaction was aborted: {error.str()}")
