"""The Kafka producer behind the Sink contract.

librdkafka keeps the order and retries for ever; its queue is the window. Python is called for failures only, because a
call for each message that became durable costs time; `_Delivery` says how success is known (docs/decisions/0025).

A broker refuses whole batches, because of one message in them or because together they are too large, and the report
of a message that was sent has no headers. So after a refused batch the next run sends each message alone, with
`UnbatchedSink`: a refusal then names its record, and a batch that was merely too large does no harm.
"""

import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from math import ceil
from time import monotonic
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka import Message as Delivered

from walrelay.errors import Retryable, SinkError
from walrelay.lsn import LSN, ZERO
from walrelay.model import Message, Receipt, Refusal
from walrelay.sinks.kafka.batching import UNBATCHED, BatchingHistory, Trial
from walrelay.sinks.kafka.errors import (
    CLIENT_LOG,
    COLLIDING,
    Complaints,
    Failure,
    colliding,
    error_of,
    reported_message,
    text_of,
)
from walrelay.sinks.kafka.metadata import MetadataNudge, may_have_partition

_REPORTS_WAIT = 1.0  # seconds for the delivery reports of the messages that a fatal error is about
_TOPIC_WAIT = "topic.metadata.propagation.max.ms"
_TOPICS = 1_000  # that are remembered
_METADATA = 1.0  # seconds for the brokers to say which topics there are
_CLOSE_WAIT = 0.5  # seconds for the delivery reports of what close purges


class _Durable(NamedTuple):
    """So many messages of one transaction became durable; `message`: which one, where each has its own delivery."""

    ticket: int
    messages: int
    message: Message | None


class _Delivery:
    """The delivery reports of some messages of one transaction; with `message` of that one only.

    The client calls it for failures only, and holds it for each message until that has its report. While a call can
    come it is alive; so when it dies, all its messages that did not fail are durable.
    """

    __slots__ = ("_failed", "_ready", "count", "message", "ticket")

    def __init__(self, ticket: int, message: Message | None, ready: list[_Durable], failed: list[Failure]) -> None:
        self.ticket, self.message = ticket, message
        self.count = 0  # messages that were taken and did not fail
        self._ready, self._failed = ready, failed

    def __call__(self, error: KafkaError | None, delivered: Delivered) -> None:
        if error is not None:
            self.count -= 1
            message = self.message or reported_message(delivered)
            self._failed.append(Failure(self.ticket, message, error, certain=self.message is not None))

    def __del__(self) -> None:
        if self.count:
            self._ready.append(_Durable(self.ticket, self.count, self.message))


class KafkaSink:
    """Owned by one run. Takes no message while a refusal waits to be reported, so that nothing overtakes that
    message.
    """

    def __init__(self, options: Mapping[str, Any], history: BatchingHistory | None = None) -> None:
        self._history = history or BatchingHistory()
        self._unbatched = self._history.batch_refused
        self._names_each = self._unbatched  # whether a failure names its message: a delivery object for each
        self._trial: Trial | None = None
        self._begins = True
        self._ready: list[_Durable] = []
        self._failed: list[Failure] = []
        self._fatal = ""
        self._delivery: _Delivery | None = None  # of the latest messages, until receipts are asked for
        self._topics: set[str] = set()  # of the latest messages
        self._complaints = Complaints(self._history.outage, options)
        if self._unbatched:  # the run before has waited librdkafka's 30 s for an unknown topic
            options = {_TOPIC_WAIT: 5_000, **options, **UNBATCHED}
        options = {**self._history.counted(options), "error_cb": self._complaints, "delivery.report.only.error": True}
        try:
            self._producer = Producer(options, logger=CLIENT_LOG)
        except (KafkaException, ValueError, TypeError) as cause:
            refused = SinkError(
                f"librdkafka does not accept the sink's settings: {text_of(cause)}",
                hint="Correct the names and values under sink.options; librdkafka's CONFIGURATION.md lists them.",
            )
            raise self._history.no_client(refused) from cause
        self._history.client_made()
        self._produce = self._producer.produce
        self._nudge = MetadataNudge(self._producer)

    def publish(self, message: Message, ticket: int) -> bool:
        if self._failed:
            return False
        delivery = self._delivery
        if delivery is None or delivery.ticket != ticket or self._names_each:
            if self._trial is not None and not self._tries(self._trial, ticket):
                return False
            only = message if self._names_each else None
            delivery = self._delivery = _Delivery(ticket, only, self._ready, self._failed)
            self._nudge.topic = message.topic
            if len(self._topics) > _TOPICS:
                self._topics.clear()
            self._topics.add(message.topic)
        topic, key, value, headers, timestamp_ms, partition = message
        try:
            # By position: names cost a fifth of the call. The None is `on_delivery`, the other name of `callback`.
            self._produce(topic, value, key, partition, delivery, None, timestamp_ms, headers)  # type: ignore[arg-type]
        except BufferError:
            return False
        except (KafkaException, ValueError, TypeError) as cause:
            if may_have_partition(self._producer, message, error := error_of(cause)):
                return False
            self._failed.append(Failure(ticket, message, error, certain=True, sent=False))
        else:
            delivery.count += 1
            if self._trial is not None:
                self._trial.took(ticket)
        return True

    def mark(self, end_lsn: LSN, commit_lsn: LSN = ZERO, ordinal: int = 0, *, over: bool = False) -> None:
        """The first call begins the trial: a message that was refused in an earlier run may come first."""
        if self._begins:
            self._begins = False
            if not self._unbatched:
                self._trial, self._names_each = Trial(self._waits_for_a_topic), True

    def receipts(self, timeout: float) -> Iterable[Receipt | Refusal]:
        self._delivery = None  # else it would live, and its messages wait for their receipt, until more come
        self._nudge.ask()
        if self._trial is not None and self._trial.waits and not self._failed:
            self.flush(timeout)  # without waiting for a batch to fill
            timeout = 0
        self._poll(0 if self._ready or self._failed or self._fatal else timeout)
        if self._ready:
            if self._trial is not None:
                self._trial.settled()
            receipts = [Receipt(ticket, messages) for ticket, messages, _ in self._ready]
            self._ready.clear()
            self._complaints.answered()
            self._nudge.stop()
            return receipts
        self._complaints.end_if_certificates_were_renewed()
        if self._fatal and not self._failed:
            self._poll(_REPORTS_WAIT)  # the reports come after the fatal error
        return self._refusal() if self._failed or self._fatal else []

    def flush(self, timeout: float) -> None:
        """Rounds up to milliseconds: the client rounds down, and in none nothing is sent. Its flush raises fatal errors
        in one of three ways (confluent-kafka 2.16): as it should, as SystemError when a delivery report was served
        after it, or as a bare KafkaError, which is no exception class.
        """
        try:
            self._producer.flush(ceil(timeout * 1000) / 1000)
        except (KafkaException, SystemError) as cause:
            self._fatal = text_of(cause.__cause__ or cause)
        except BaseException:
            raise
        except:  # noqa: E722
            self._fatal = str(sys.exc_info()[1])

    def close(self) -> None:
        purged = KafkaError(KafkaError._PURGE_QUEUE)
        self._failed.append(Failure(-1, Message("", None, None, [], 0), purged, certain=False, sent=False))
        deadline = monotonic() + _CLOSE_WAIT
        self._producer.purge(in_queue=True, in_flight=True, blocking=False)
        while len(self._producer) and monotonic() < deadline:
            self._poll(_CLOSE_WAIT / 10)

    def descriptor(self) -> int | None:
        return None

    def trouble(self) -> str:
        return self._complaints.text or self._missing_topic()

    def _missing_topic(self) -> str:
        """librdkafka waits for a topic, in silence and for half a minute, before it calls it unknown."""
        try:
            missing = self._unknown_topics()
        except KafkaException as cause:
            return f"the brokers do not answer: {error_of(cause).str()}"
        if not missing:
            return ""
        (first, twin), *more = missing.items()
        others = f" (and {len(more)} others)" if more else ""
        if twin:
            return f"topic {first}{others} does not exist on the broker, and cannot be made beside {twin}: {COLLIDING}"
        return f"topic {first}{others} does not exist on the broker, or may not be seen; waiting for it"

    def _unknown_topics(self) -> dict[str, str]:
        """Those that are not there, each with the topic that keeps Kafka from making it, if there is one."""
        there = self._producer.list_topics(timeout=_METADATA).topics
        missing = sorted(topic for topic in self._topics if topic not in there or there[topic].error is not None)
        return {topic: colliding(topic, there) for topic in missing}

    def _waits_for_a_topic(self) -> bool:
        with suppress(KafkaException):
            return bool(self._unknown_topics())
        return False

    def _tries(self, trial: Trial, ticket: int) -> bool:
        """Whether a message may be taken now; the first message that is not on trial ends the trial."""
        taken = trial.takes(ticket)
        if trial.over:
            self._trial, self._names_each = None, False
        return taken

    @property
    def _outlives(self) -> bool:
        """Whether the producer can go on after a message that was sent and refused: this one would leave a gap."""
        return False

    def _refusal(self) -> list[Refusal]:
        """Refusals, or the error that ends the run. A refused message does no harm if it was not sent, or if the
        producer outlives it; any other failure is the end of the producer.
        """
        harmless = (each.certain and each.is_refusal and (self._outlives or not each.sent) for each in self._failed)
        if not self._fatal and all(harmless):
            failed, self._failed[:] = [*self._failed], []
            return [each.as_refusal(ends=False) for each in failed]
        for each in self._failed:
            if each.is_refusal and not each.certain:
                raise self._history.without_batches(each.message.topic, each.error)
            if each.is_refusal:
                self._history.batch_refused |= each.sent
                return [each.as_refusal(ends=True)]
        raise Retryable(f"the Kafka producer failed: {self._fatal or self._failed[0].error.str()}")

    def _poll(self, timeout: float) -> None:
        """Serves the callbacks; poll raises an error that is fatal for this producer, error_cb does not get it."""
        try:
            self._producer.poll(timeout)
        except (KafkaException, SystemError) as cause:
            self._fatal = text_of(cause.__cause__ or cause)


class UnbatchedSink(KafkaSink):
    """After a refused batch: sends each message alone, and a topic's next one only after its receipt.

    So every refusal names its message, nothing overtakes it, and the producer outlives it: the gapless guarantee is not
    needed where nothing follows. This is slower by two orders of magnitude. After enough messages batches are tried
    again: by a new run, at the end of a transaction, so that nothing is repeated. If a batch is refused again, twice as
    many must pass: a poison message deep in a large transaction is reached in the end.
    """

    def __init__(self, options: Mapping[str, Any], history: BatchingHistory) -> None:
        super().__init__({**options, "enable.gapless.guarantee": False}, history)
        self._busy_topics: set[str] = set()  # with a message in flight
        self._ticket = -1
        self._leaving = False

    @property
    def _outlives(self) -> bool:
        return True

    def publish(self, message: Message, ticket: int) -> bool:
        if ticket != self._ticket and self._history.may_batch_again:
            self._leaving = True
        if self._leaving or message.topic in self._busy_topics or not super().publish(message, ticket):
            return False
        self._ticket = ticket
        self._busy_topics.add(message.topic)
        return True

    def receipts(self, timeout: float) -> Iterable[Receipt | Refusal]:
        if self._leaving and not self._busy_topics:
            raise self._history.with_batches_again()
        return super().receipts(timeout)

    def _poll(self, timeout: float) -> None:
        super()._poll(timeout)
        for durable in self._ready:
            if durable.message is not None:
                self._busy_topics.discard(durable.message.topic)
                self._history.unbatched_messages_passed(1)
        for failure in self._failed:
            self._busy_topics.discard(failure.message.topic)
            self._history.unbatched_message_failed()
