"""The Kafka producer behind the Sink contract.

librdkafka keeps the order and retries for ever; its queue is the window. A delivery callback per message only counts:
one object per transaction, because a callback that raises is lost (PITFALLS C9) and a closure per message costs.
"""

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka import Message as Delivered

from walrelay.errors import Fatal, Retryable
from walrelay.model import Message, Receipt, Refusal
from walrelay.sinks.kafka.refusals import hint_for, is_refusal

_LOG = logging.getLogger("walrelay.kafka")
_LOG.addFilter(lambda entry: "enable.gapless.guarantee is experimental" not in entry.getMessage())


class _Delivery:
    """Counts what became durable of one transaction."""

    __slots__ = ("_failed", "_ready", "count", "ticket")

    def __init__(self, ticket: int, ready: "list[_Delivery]", failed: list[tuple[int, KafkaError, Message]]) -> None:
        self.ticket = ticket
        self.count = 0
        self._ready = ready
        self._failed = failed

    def __call__(self, error: KafkaError | None, delivered: Delivered) -> None:
        if error is None:
            if self.count == 0:
                self._ready.append(self)
            self.count += 1
        else:
            self._failed.append((self.ticket, error, _message(delivered)))


class KafkaSink:
    """Owned by one run. After a refusal it takes nothing more, so that nothing overtakes the refused message."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._ready: list[_Delivery] = []
        self._failed: list[tuple[int, KafkaError, Message]] = []
        self._delivery = _Delivery(-1, self._ready, self._failed)
        self._trouble = ""
        try:
            self._producer = Producer({**options, "error_cb": self._complain}, logger=_LOG)
        except (KafkaException, ValueError, TypeError) as cause:
            raise Fatal(
                f"librdkafka does not accept the sink's settings: {_text(cause)}",
                hint="Correct the names and values under sink.options; librdkafka's CONFIGURATION.md lists them.",
            ) from cause
        self._produce = self._producer.produce

    def publish(self, message: Message, ticket: int) -> bool:
        if self._failed:
            return False
        delivery = self._delivery
        if delivery.ticket != ticket:
            delivery = self._delivery = _Delivery(ticket, self._ready, self._failed)
        topic, key, value, headers, timestamp_ms = message
        try:
            self._produce(topic, value, key, on_delivery=delivery, timestamp=timestamp_ms, headers=headers)  # type: ignore[arg-type]
        except BufferError:
            return False
        except KafkaException as cause:
            self._failed.append((ticket, _error(cause), message))
        return True

    def receipts(self, timeout: float) -> Iterable[Receipt | Refusal]:
        fatal = self._poll(0 if self._ready or self._failed else timeout)
        receipts: list[Receipt | Refusal] = []
        for delivery in self._ready:
            receipts.append(Receipt(delivery.ticket, delivery.count))
            delivery.count = 0
        if receipts:
            self._trouble = ""
            self._ready.clear()
        for ticket, error, message in self._failed:
            if is_refusal(error):
                receipts.append(Refusal(ticket, message, error.str(), hint_for(error, message)))
                return receipts
        if self._failed or fatal:
            raise Retryable(f"the Kafka producer failed: {fatal or self._failed[0][1].str()}")
        return receipts

    def flush(self, timeout: float) -> None:
        try:
            self._producer.flush(timeout)
        except KafkaException as cause:
            self._trouble = _text(cause)  # the next poll raises it again

    def close(self) -> None:
        self._failed.append((-1, KafkaError(KafkaError._PURGE_QUEUE), Message("", None, None, [], 0)))
        try:
            self._producer.purge(in_queue=True, in_flight=True, blocking=False)
            self._producer.flush(0.5)
        except KafkaException:
            pass  # a producer with a fatal error has nothing left to let go

    def trouble(self) -> str:
        return self._trouble

    def _poll(self, timeout: float) -> str:
        """Serves the callbacks; what is fatal for this producer is raised by poll, not given to error_cb (C4)."""
        try:
            self._producer.poll(timeout)
        except KafkaException as cause:
            return _text(cause)
        return ""

    def _complain(self, error: KafkaError) -> None:
        self._trouble = error.str()


def _message(delivered: Delivered) -> Message:
    """The message of a delivery report, as far as the report has it."""
    headers: list[tuple[str, bytes | None]] = list(delivered.headers() or [])
    return Message(delivered.topic() or "", delivered.key(), delivered.value(), headers, 0)


def _error(cause: KafkaException) -> KafkaError:
    error = cause.args[0]
    return error if isinstance(error, KafkaError) else KafkaError(KafkaError._FAIL, str(error))


def _text(cause: Exception) -> str:
    return _error(cause).str() if isinstance(cause, KafkaException) else str(cause)
