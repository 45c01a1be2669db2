"""The Kafka sink after a refused batch: each message is sent alone, and a topic's next one only after its receipt.

So every refusal names its message, nothing overtakes it, and the producer outlives it: it does without the gapless
guarantee, which is not needed where nothing follows. This is slower by two orders of magnitude. After enough messages
passed, batches are tried again: by a new run, at the end of a transaction, so that nothing is repeated. If a batch is
refused again then, twice as many must pass: a poison message deep in a large transaction is reached in the end.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from walrelay.model import Message, Receipt, Refusal
from walrelay.sinks.kafka.batching import BatchingHistory
from walrelay.sinks.kafka.sink import KafkaSink


class UnbatchedSink(KafkaSink):
    """See `KafkaSink`. A refusal does not end it."""

    def __init__(self, options: Mapping[str, Any], history: BatchingHistory) -> None:
        super().__init__({**options, "enable.gapless.guarantee": False}, history)
        self._open: set[str] = set()  # topics with a message under way
        self._ticket = -1
        self._leaving = False

    @property
    def _outlives(self) -> bool:
        return True

    def publish(self, message: Message, ticket: int) -> bool:
        if ticket != self._ticket and self._history.may_batch_again:
            self._leaving = True
        if self._leaving or message.topic in self._open or not super().publish(message, ticket):
            return False
        self._ticket = ticket
        self._open.add(message.topic)
        return True

    def receipts(self, timeout: float) -> Iterable[Receipt | Refusal]:
        if self._leaving and not self._open:
            raise self._history.with_batches_again()
        return super().receipts(timeout)

    def _poll(self, timeout: float) -> None:
        super()._poll(timeout)
        for delivery in self._ready:
            if delivery.message is not None:
                self._open.discard(delivery.message.topic)
                self._history.unbatched_messages_passed(1)
        for failure in self._failed:
            self._open.discard(failure.message.topic)
            self._history.unbatched_message_failed()
