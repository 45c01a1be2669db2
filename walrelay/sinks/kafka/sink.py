"""The Kafka producer behind the Sink contract.

librdkafka keeps the order and retries for ever; its queue is the window. A delivery callback per message only counts:
one object per transaction, because a callback that raises is lost (PITFALLS C9) and a closure per message costs.

A broker refuses whole batches, for the sake of one message in them or because together they are too large, and the
report of a message that was sent has no headers. So after a refused batch the next run sends each message alone (see
`alone`): what is refused then is the record to name, and a batch that was merely too large is no matter.
"""

import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from time import monotonic
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka import Message as Delivered

from walrelay.errors import Fatal, Retryable, StartAnew
from walrelay.lsn import LSN, ZERO
from walrelay.model import Message, Receipt, Refusal
from walrelay.sinks.kafka.complaints import CLIENT_LOG, Complaints, Outage
from walrelay.sinks.kafka.refusals import is_refusal, refused
from walrelay.sinks.kafka.trial import Trial

ALONE = {"batch.num.messages": 1}
ANY_PARTITION = -1  # the partitioner's choice
_INTRODUCE_TRIES, _INTRODUCE_WAIT, _INTRODUCE_PAUSE = 20, 0.02, 0.01  # seconds
_REPORTS_WAIT = 1.0  # seconds for the delivery reports of the messages that a fatal error is about
_TOPIC_WAIT = "topic.metadata.propagation.max.ms"
_TOPICS = 1_000  # that are remembered
_METADATA = 1.0  # seconds for the brokers to say which topics there are
_CLOSE_WAIT = 0.5  # seconds for the delivery reports of what close lets go


class Experience:
    """What the producers of this process found out; the next run's begins with it."""

    batch_refused = False
    quiet = 0  # messages in a row that were sent alone and went through
    enough = 1_000  # of those until batches are tried again; doubled each time

    def __init__(self) -> None:
        self.outage = Outage()

    @property
    def reassured(self) -> bool:
        """Whether batches are to be tried again."""
        return self.batch_refused and self.quiet >= self.enough

    def start_anew(self) -> StartAnew:
        """What ends the run for that."""
        passed, self.quiet, self.batch_refused = self.quiet, 0, False
        self.enough *= 2
        return StartAnew(f"{passed} messages went through one by one; batches are tried again")


class Failure(NamedTuple):
    """A message of a transaction that did not become durable. `certain`: it is to blame itself; `sent`: it was."""

    ticket: int
    error: KafkaError
    message: Message
    certain: bool
    sent: bool


class _Delivery:
    """Counts what became durable of one transaction; `message` where it is the only one that is counted."""

    __slots__ = ("_failed", "_ready", "count", "message", "ticket")

    def __init__(
        self,
        ticket: int,
        ready: "list[_Delivery]",
        failed: list[Failure],
        message: Message | None = None,
    ) -> None:
        self.ticket = ticket
        self.count = 0
        self._ready = ready
        self._failed = failed
        self.message = message

    def __call__(self, error: KafkaError | None, delivered: Delivered) -> None:
        if error is None:
            if self.count == 0:
                self._ready.append(self)
            self.count += 1
        else:
            message = self.message
            self._failed.append(Failure(self.ticket, error, message or _message(delivered), message is not None, True))


class _Introduction:
    """A producer's first second. Nothing is sent before it has its id, and librdkafka (2.16) asks for that whenever a
    connected broker told it metadata, otherwise every 500 ms only. The first broker to tell it is the bootstrap one,
    which is let go for that. So, until something was delivered, metadata is asked for again.
    """

    def __init__(self, producer: Producer) -> None:
        self.topic = ""
        self._producer = producer
        self._tries, self._next = _INTRODUCE_TRIES, 0.0

    def hasten(self) -> None:
        if self._tries and self.topic and monotonic() >= self._next:
            self._tries -= 1
            with suppress(KafkaException):  # not connected yet, or what the receipts will tell
                self._producer.list_topics(self.topic, timeout=_INTRODUCE_WAIT)
            self._next = monotonic() + _INTRODUCE_PAUSE

    def over(self) -> None:
        self._tries = 0


class KafkaSink:
    """Owned by one run. Takes nothing more while a refusal waits to be told, so that nothing overtakes that message."""

    def __init__(self, options: Mapping[str, Any], experience: Experience | None = None) -> None:
        self._experience = experience or Experience()
        self._alone = self._one_by_one = self._experience.batch_refused
        self._trial: Trial | None = None
        self._begins = True
        self._ready: list[_Delivery] = []
        self._failed: list[Failure] = []
        self._fatal = ""
        self._delivery = _Delivery(-1, self._ready, self._failed)
        self._topics: set[str] = set()  # of what was taken lately
        self._complaints = Complaints(self._experience.outage)
        if self._alone:  # the run before has waited for a topic that is unknown, for librdkafka's 30 s
            options = {_TOPIC_WAIT: 5_000, **options, **ALONE}
        options = {**options, "error_cb": self._complaints}
        try:
            self._producer = Producer(options, logger=CLIENT_LOG)
        except (KafkaException, ValueError, TypeError) as cause:
            raise Fatal(
                f"librdkafka does not accept the sink's settings: {text_of(cause)}",
                hint="Correct the names and values under sink.options; librdkafka's CONFIGURATION.md lists them.",
            ) from cause
        self._produce = self._producer.produce
        self._introduction = _Introduction(self._producer)

    def publish(self, message: Message, ticket: int) -> bool:
        if self._failed:
            return False
        delivery = self._delivery
        if delivery.ticket != ticket or self._one_by_one:
            if self._trial is not None and not self._tries(self._trial, ticket):
                return False
            only = message if self._one_by_one else None
            delivery = self._delivery = _Delivery(ticket, self._ready, self._failed, only)
            self._introduction.topic = message.topic
            if len(self._topics) > _TOPICS:
                self._topics.clear()
            self._topics.add(message.topic)
        topic, key, value, headers, timestamp_ms = message
        try:
            # By position: names cost a fifth of the call. The None is `on_delivery`, the other name of `callback`.
            self._produce(topic, value, key, ANY_PARTITION, delivery, None, timestamp_ms, headers)  # type: ignore[arg-type]
        except BufferError:
            return False
        except KafkaException as cause:
            self._failed.append(Failure(ticket, error_of(cause), message, True, False))
        except (ValueError, TypeError) as cause:  # a NUL in the topic, for instance
            error = KafkaError(KafkaError._INVALID_ARG, str(cause))
            self._failed.append(Failure(ticket, error, message, True, False))
        else:
            if self._trial is not None:
                self._trial.took(ticket)
        return True

    def mark(self, end_lsn: LSN, commit_lsn: LSN = ZERO, ordinal: int = 0, *, over: bool = False) -> None:
        """Where a stream begins, a trial does: there may be a message that was refused before."""
        if self._begins:
            self._begins = False
            if not self._alone:
                self._trial, self._one_by_one = Trial(self._waits_for_a_topic), True

    def receipts(self, timeout: float) -> Iterable[Receipt | Refusal]:
        self._introduction.hasten()
        if self._trial is not None and self._trial.waits and not self._failed:
            self.flush(timeout)  # without the time that a batch would be waited for
            timeout = 0
        self._poll(0 if self._ready or self._failed or self._fatal else timeout)
        if self._ready:
            if self._trial is not None:
                self._trial.settled()
            receipts = [Receipt(delivery.ticket, delivery.count) for delivery in self._ready]
            for delivery in self._ready:
                delivery.count = 0
            self._ready.clear()
            self._complaints.answered()
            self._introduction.over()
            return receipts
        if self._fatal and not self._failed:
            self._poll(_REPORTS_WAIT)  # they come behind it
        return self._refusal() if self._failed or self._fatal else []

    def flush(self, timeout: float) -> None:
        """A fatal error comes out of the client's flush in one of three ways (confluent-kafka 2.16): as it should, as
        SystemError when a delivery report was served after it, or as a bare KafkaError, which is no exception class.
        """
        try:
            self._producer.flush(timeout)
        except (KafkaException, SystemError) as cause:
            self._fatal = text_of(cause.__cause__ or cause)
        except BaseException:
            raise
        except:  # noqa: E722
            self._fatal = str(sys.exc_info()[1])

    def close(self) -> None:
        purged = KafkaError(KafkaError._PURGE_QUEUE)
        self._failed.append(Failure(-1, purged, Message("", None, None, [], 0), certain=False, sent=False))
        deadline = monotonic() + _CLOSE_WAIT
        self._producer.purge(in_queue=True, in_flight=True, blocking=False)
        while len(self._producer) and monotonic() < deadline:
            self._poll(_CLOSE_WAIT / 10)

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
        others = f" (and {len(missing) - 1} others)" if len(missing) > 1 else ""
        return f"topic {missing[0]}{others} does not exist on the broker, or may not be seen; waiting for it"

    def _unknown_topics(self) -> list[str]:
        there = self._producer.list_topics(timeout=_METADATA).topics
        return sorted(topic for topic in self._topics if topic not in there or there[topic].error is not None)

    def _waits_for_a_topic(self) -> bool:
        with suppress(KafkaException):
            return bool(self._unknown_topics())
        return False

    def _tries(self, trial: Trial, ticket: int) -> bool:
        """Whether a message may be taken now; the first of those that are not on trial ends it."""
        taken = trial.takes(ticket)
        if trial.over:
            self._trial, self._one_by_one = None, False
        return taken

    @property
    def _outlives(self) -> bool:
        """Whether the producer goes on after a message that was sent and refused: not without a gap."""
        return False

    def _refusal(self) -> list[Refusal]:
        """What is to be done about the failures. Those of which nothing was sent, or that the producer outlives, are
        no matter for it; any other is the end of it.
        """
        harmless = (
            each.certain and is_refusal(each.error) and (self._outlives or not each.sent) for each in self._failed
        )
        if not self._fatal and all(harmless):
            failed, self._failed[:] = [*self._failed], []
            return [refused(each.ticket, each.message, each.error, ends=False) for each in failed]
        for each in self._failed:
            if not is_refusal(each.error):
                continue
            self._experience.batch_refused |= each.sent
            if each.certain:
                return [refused(each.ticket, each.message, each.error, ends=True)]
            raise StartAnew(
                f"Kafka refused a batch of messages for topic {each.message.topic!r}: {each.error.str()}; from now on"
                " each message is sent alone, to find the record or to do without large batches"
            )
        raise Retryable(f"the Kafka producer failed: {self._fatal or self._failed[0].error.str()}")

    def _poll(self, timeout: float) -> None:
        """Serves the callbacks; what is fatal for this producer is raised by poll, not given to error_cb (C4)."""
        try:
            self._producer.poll(timeout)
        except (KafkaException, SystemError) as cause:
            self._fatal = text_of(cause.__cause__ or cause)


def _message(delivered: Delivered) -> Message:
    """The message of a delivery report, as far as the report has it: without headers."""
    return Message(delivered.topic() or "", delivered.key(), delivered.value(), [], 0)


def error_of(cause: KafkaException) -> KafkaError:
    error = cause.args[0]
    return error if isinstance(error, KafkaError) else KafkaError(KafkaError._FAIL, str(error))


def text_of(cause: BaseException) -> str:
    return error_of(cause).str() if isinstance(cause, KafkaException) else str(cause)
