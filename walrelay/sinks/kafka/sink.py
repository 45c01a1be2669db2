"""The Kafka producer behind the Sink contract.

librdkafka keeps the order and retries for ever; its queue is the window. A delivery callback per message only counts:
one object per transaction, because a callback that raises is lost (PITFALLS C9) and a closure per message costs.

A broker refuses whole batches, for the sake of one message in them or because together they are too large, and the
report of a message that was sent has no headers. So after a refused batch the next run sends each message alone (see
`alone`): what is refused then is the record to name, and a batch that was merely too large is no matter.
"""

import logging
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from time import monotonic
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka import Message as Delivered

from walrelay.errors import Fatal, Retryable, StartAnew
from walrelay.lsn import LSN, ZERO
from walrelay.model import Message, Receipt, Refusal
from walrelay.sinks.kafka.refusals import is_refusal, refused

ALONE = {"batch.num.messages": 1}
ANY_PARTITION = -1  # the partitioner's choice
_INTRODUCE_TRIES, _INTRODUCE_WAIT, _INTRODUCE_PAUSE = 20, 0.02, 0.01  # seconds
_REPORTS_WAIT = 1.0  # seconds for the delivery reports of the messages that a fatal error is about
_CLOSE_WAIT = 0.5  # seconds for the delivery reports of what close lets go

_LOG = logging.getLogger("walrelay.kafka")
# The first is said of every producer, the second of every close with something in flight, as a "fatal error".
_LOG.addFilter(lambda entry: "enable.gapless.guarantee is experimental" not in entry.getMessage())
_LOG.addFilter(lambda entry: "Purged in flight" not in entry.getMessage())


class Experience:
    """What the producers of this process found out; the next run's begins with it."""

    batch_refused = False
    quiet = 0  # messages in a row that were sent alone and went through
    enough = 1_000  # of those until batches are tried again; doubled each time

    @property
    def reassured(self) -> bool:
        """Whether batches are to be tried again."""
        return self.batch_refused and self.quiet >= self.enough

    def start_anew(self) -> StartAnew:
        """What ends the run for that."""
        passed, self.quiet, self.batch_refused = self.quiet, 0, False
        self.enough *= 2
        return StartAnew(f"{passed} messages went through one by one; batches are tried again")


class _Delivery:
    """Counts what became durable of one transaction; `message` where it is the only one that is counted."""

    __slots__ = ("_failed", "_ready", "count", "message", "ticket")

    def __init__(
        self,
        ticket: int,
        ready: "list[_Delivery]",
        failed: list[tuple[int, KafkaError, Message, bool]],
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
            self._failed.append((self.ticket, error, message or _message(delivered), message is not None))


class Complaints:
    """The client library's last complaint. An object of its own: a producer that held its sink would outlive it."""

    text = ""

    def __call__(self, error: KafkaError) -> None:
        self.text = error.str()


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
        self._alone = self._experience.batch_refused
        self._ready: list[_Delivery] = []
        self._failed: list[tuple[int, KafkaError, Message, bool]] = []  # ticket, why, which, whether that is certain
        self._fatal = ""
        self._delivery = _Delivery(-1, self._ready, self._failed)
        self._complaints = Complaints()
        options = {**options, **(ALONE if self._alone else {}), "error_cb": self._complaints}
        try:
            self._producer = Producer(options, logger=_LOG)
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
        if delivery.ticket != ticket or self._alone:
            only = message if self._alone else None
            delivery = self._delivery = _Delivery(ticket, self._ready, self._failed, only)
            self._introduction.topic = message.topic
        topic, key, value, headers, timestamp_ms = message
        try:
            # By position: names cost a fifth of the call. The None is `on_delivery`, the other name of `callback`.
            self._produce(topic, value, key, ANY_PARTITION, delivery, None, timestamp_ms, headers)  # type: ignore[arg-type]
        except BufferError:
            return False
        except KafkaException as cause:
            self._failed.append((ticket, error_of(cause), message, True))
        except (ValueError, TypeError) as cause:  # a NUL in the topic, for instance
            self._failed.append((ticket, KafkaError(KafkaError._INVALID_ARG, str(cause)), message, True))
        return True

    def mark(self, end_lsn: LSN, commit_lsn: LSN = ZERO, ordinal: int = 0, *, over: bool = False) -> None:
        pass

    def receipts(self, timeout: float) -> Iterable[Receipt | Refusal]:
        self._introduction.hasten()
        self._poll(0 if self._ready or self._failed or self._fatal else timeout)
        if self._ready:
            receipts = [Receipt(delivery.ticket, delivery.count) for delivery in self._ready]
            for delivery in self._ready:
                delivery.count = 0
            self._ready.clear()
            self._complaints.text = ""
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
        self._failed.append((-1, KafkaError(KafkaError._PURGE_QUEUE), Message("", None, None, [], 0), False))
        deadline = monotonic() + _CLOSE_WAIT
        self._producer.purge(in_queue=True, in_flight=True, blocking=False)
        while len(self._producer) and monotonic() < deadline:
            self._poll(_CLOSE_WAIT / 10)

    def trouble(self) -> str:
        return self._complaints.text

    def _refusal(self) -> list[Refusal]:
        """What is to be done about the failures. Those of which nothing was sent, or no batch, are no matter for the
        producer; any other is the end of it.
        """
        if not self._fatal and all(certain and is_refusal(error) for _, error, _, certain in self._failed):
            failed, self._failed[:] = [*self._failed], []
            return [refused(ticket, message, error, ends=False) for ticket, error, message, _ in failed]
        for ticket, error, message, certain in self._failed:
            if not is_refusal(error):
                continue
            if certain:
                return [refused(ticket, message, error, ends=True)]
            self._experience.batch_refused = True
            raise StartAnew(
                f"Kafka refused a batch of messages for topic {message.topic!r}: {error.str()}; from now on each"
                " message is sent alone, to find the record or to do without large batches"
            )
        raise Retryable(f"the Kafka producer failed: {self._fatal or self._failed[0][1].str()}")

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
