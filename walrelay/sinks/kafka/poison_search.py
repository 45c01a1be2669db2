"""Finds the messages of an aborted group that Kafka refuses, in further transactions, none of which is committed.

A Kafka transaction with a refused message fails as a whole, and librdkafka (2.16) sends nothing more of it: only two or
three of a thousand refused messages are found at a time. A run for each of them would take minutes. So the messages are
sent again and again, without those that were refused, until a transaction succeeds; then that is aborted too.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from time import monotonic

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka import Message as Delivered

from walrelay.model import Message
from walrelay.sinks.kafka.errors import Failure, error_of, is_refusal
from walrelay.sinks.kafka.group import Offer

_ROOM = 500  # messages
_ROOM_BYTES = 32 * 2**20
_DRAINED = 0.05  # seconds without another message: no more come
_AT_A_TIME = 50  # messages
_VERDICT = 1.0  # seconds for a transaction to succeed or to fail
_OTHERS = 0.01  # seconds for what was in flight together with a refused message
_MOST_FAILURES = 5  # transactions in a row that fail for another reason: skipped sequence numbers, for instance
_ABORT, _ABORT_SLICE = 5.0, 0.02  # seconds


class PoisonSearch:
    """Replaces the group: begins with its latest `offers`, without the refused messages that are `found` already."""

    def __init__(
        self,
        producer: Producer,
        produce: Callable[[Message, Callable[..., None]], None],
        offers: list[Offer],
        found: list[Failure],
    ) -> None:
        self._producer, self._produce, self.found = producer, produce, found
        known = {each.number for each in found}
        latest = range(max(0, len(offers) - _ROOM), len(offers))
        self._waiting = [offers[number] for number in latest if number not in known]
        self._bytes = 0
        self._last = monotonic()
        self._sent = False
        self._failures = 0

    def take(self, ticket: int, message: Message) -> bool:
        """Returns False if the search is full: the next run gets the message, once those found are dead letters."""
        if self._sent or len(self._waiting) >= _ROOM or self._bytes > _ROOM_BYTES:
            return False
        self._waiting.append(Offer(ticket, message))
        self._bytes += len(message.value or b"")
        self._last = monotonic()
        return True

    def step(self) -> bool:
        """Goes on for a second or so; True when every refused message is found, or as many as can be."""
        if not self._sent and len(self._waiting) < _ROOM and monotonic() - self._last < _DRAINED:
            self._producer.poll(_DRAINED / 5)
            return False
        self._sent = True
        if not self._waiting:
            return True
        batch = self._waiting[:_AT_A_TIME]
        try:
            refused = self._offer(batch)
        except KafkaException:
            self._failures += 1
            return self._failures == _MOST_FAILURES
        self._failures = 0
        self.found += [Failure(*batch[index], error, certain=True) for index, error in sorted(refused.items())]
        self._waiting[: len(batch)] = [each for index, each in enumerate(batch) if refused and index not in refused]
        return not self._waiting

    def _offer(self, batch: list[Offer]) -> dict[int, KafkaError]:
        """The refused messages, by index: at least some of them, if there are any. KafkaException if the transaction
        failed for another reason.
        """
        failed: dict[int, KafkaError] = {}

        def report(index: int, error: KafkaError | None, delivered: Delivered) -> None:
            if error is not None:
                failed[index] = error

        topic = batch[0].message.topic
        self._producer.begin_transaction()
        for index, offer in enumerate(batch):
            try:
                self._produce(offer.message, partial(report, index))
            except BufferError:
                del batch[index:]  # as many as there is room for
                break
            except (KafkaException, ValueError, TypeError) as cause:
                failed[index] = error_of(cause)
        if not batch:
            self._abort(topic)
            raise KafkaException(KafkaError(KafkaError._QUEUE_FULL, "no room"))
        deadline = monotonic() + _VERDICT
        while not failed and len(self._producer) and monotonic() < deadline:
            self._producer.poll(_OTHERS)
        while len(self._producer) and self._producer.poll(_OTHERS):
            pass
        refused = {index: error for index, error in failed.items() if is_refusal(error, batch[index].message)}
        succeeded = not failed and not len(self._producer)
        self._abort(topic)
        if not refused and not succeeded:
            raise KafkaException(next(iter(failed.values()), KafkaError(KafkaError._TIMED_OUT, "no answer")))
        return refused

    def _abort(self, topic: str) -> None:
        """After a failure the producer needs a new epoch, for which librdkafka asks every 500 ms, or with metadata."""
        deadline = monotonic() + _ABORT
        while True:
            try:
                return self._producer.abort_transaction(_ABORT_SLICE)
            except KafkaException as cause:
                if not error_of(cause).retriable() or monotonic() > deadline:
                    raise
            with suppress(KafkaException):
                self._producer.list_topics(topic, timeout=_ABORT_SLICE)
