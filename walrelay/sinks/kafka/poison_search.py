"""Which messages of an aborted group Kafka refuses: found out in further transactions, none of which is committed.

A Kafka transaction with a refused message fails as a whole, and librdkafka (2.16) sends nothing more of it: of a
thousand refused messages two or three are found at a time. A run for each of them would take minutes. So the messages
are offered again and again, less those that were refused, until a transaction goes through; then that is aborted too.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import NamedTuple

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka import Message as Delivered

from walrelay.model import Message
from walrelay.sinks.kafka.refusals import is_refusal

_ROOM = 500  # messages
_ROOM_BYTES = 32 * 2**20
_DRAINED = 0.05  # seconds without another message after which there are no more to wait for
_AT_A_TIME = 50  # messages
_VERDICT = 1.0  # seconds for a transaction to go through or to fail
_OTHERS = 0.01  # seconds for what was under way together with what was refused
_IN_VAIN = 5  # transactions in a row that failed for another reason: sequence numbers that were skipped, for instance
_ABORT, _ABORT_SLICE = 5.0, 0.02  # seconds


class Offer(NamedTuple):
    """A message that was taken, and of which transaction."""

    ticket: int
    message: Message


class Scout:
    """Takes the place of the group, whose latest `offers` it begins with, less those that are `found` refused."""

    def __init__(
        self,
        producer: Producer,
        produce: Callable[[Message, Callable[..., None]], None],
        offers: list[Offer],
        found: list[tuple[Offer, KafkaError]],
    ) -> None:
        self._producer, self._produce, self.found = producer, produce, found
        known = {id(offer.message) for offer, _ in found}
        self._waiting = [offer for offer in offers[-_ROOM:] if id(offer.message) not in known]
        self._bytes = 0
        self._last = monotonic()
        self._sent = False
        self._in_vain = 0

    def take(self, ticket: int, message: Message) -> bool:
        """False: it is to be offered to the next run, when what is found here is set aside."""
        if self._sent or len(self._waiting) >= _ROOM or self._bytes > _ROOM_BYTES:
            return False
        self._waiting.append(Offer(ticket, message))
        self._bytes += len(message.value or b"")
        self._last = monotonic()
        return True

    def step(self) -> bool:
        """Goes on for a second or so; True when all is found, or all that can be."""
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
            self._in_vain += 1
            return self._in_vain == _IN_VAIN
        self._in_vain = 0
        self.found += [(batch[index], error) for index, error in sorted(refused.items())]
        self._waiting[: len(batch)] = [each for index, each in enumerate(batch) if refused and index not in refused]
        return not self._waiting

    def _offer(self, batch: list[Offer]) -> dict[int, KafkaError]:
        """Those of the messages that were refused, by index: some at least, if there are any. KafkaException if the
        transaction failed for another reason.
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
            except KafkaException as cause:
                failed[index] = cause.args[0]
            except (ValueError, TypeError) as cause:
                failed[index] = KafkaError(KafkaError._INVALID_ARG, str(cause))
        if not batch:
            self._abort(topic)
            raise KafkaException(KafkaError(KafkaError._QUEUE_FULL, "no room"))
        deadline = monotonic() + _VERDICT
        while not failed and len(self._producer) and monotonic() < deadline:
            self._producer.poll(_OTHERS)
        while len(self._producer) and self._producer.poll(_OTHERS):
            pass
        refused = {index: error for index, error in failed.items() if is_refusal(error)}
        through = not failed and not len(self._producer)
        self._abort(topic)
        if not refused and not through:
            raise KafkaException(next(iter(failed.values()), KafkaError(KafkaError._TIMED_OUT, "no answer")))
        return refused

    def _abort(self, topic: str) -> None:
        """After a failure the producer needs a new epoch, for which librdkafka asks every 500 ms, or with metadata."""
        deadline = monotonic() + _ABORT
        while True:
            try:
                return self._producer.abort_transaction(_ABORT_SLICE)
            except KafkaException as cause:
                if not cause.args[0].retriable() or monotonic() > deadline:
                    raise
            with suppress(KafkaException):
                self._producer.list_topics(topic, timeout=_ABORT_SLICE)
