"""What the Kafka client says: which errors no retry can cure, what an operator can do, and what it complains of
meanwhile.
"""

import logging
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from time import monotonic
from types import MappingProxyType
from typing import NamedTuple

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import Message as Delivered

from walrelay.certificates import files_among, stamp_of
from walrelay.errors import AS_IT_WAS_WRITTEN, START_AGAIN, Retryable
from walrelay.model import ANY_PARTITION, Message, Refusal
from walrelay.sinks.kafka.plugin import topic_fault

AWAY = {
    *(KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._RESOLVE),
    *(KafkaError._SSL, KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED),
}
"""Nobody answers, or lets us in: it may be otherwise soon."""
NOT_THERE = {
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
}

_EPOCH = datetime(1970, 1, 1)
_UNKNOWN = (
    "Create the topic: walrelay init --topics {topic} --exact"
    " (or kafka-topics.sh --create; or let the broker do it: sink.create_topics: true). Where a topic is there whose"
    " name has '.' for '_' or the other way round, Kafka makes none: choose another route.topic."
)

COLLIDING = (
    "Kafka takes '.' and '_' in the names of topics for the same, and has a topic of that name with the other: choose"
    " another route.topic."
)

_HINTS = {
    KafkaError.MSG_SIZE_TOO_LARGE: "Raise message.max.bytes under sink.options, and max.message.bytes of the topic:"
    " kafka-configs.sh --alter --topic {topic} --add-config max.message.bytes=10485760 ...",
    KafkaError.UNKNOWN_TOPIC_OR_PART: _UNKNOWN,
    KafkaError._UNKNOWN_TOPIC: _UNKNOWN,
    KafkaError._UNKNOWN_PARTITION: "The topic has no partition {partition}, which the row asks for: add partitions"
    " with kafka-topics.sh --alter --topic {topic} --partitions ...",
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "Allow walrelay's principal to write the topic: kafka-acls.sh --add"
    " --allow-principal User:... --operation Write --operation Describe --topic {topic}",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "Allow walrelay's principal IdempotentWrite on the cluster:"
    " kafka-acls.sh --add --allow-principal User:... --operation IdempotentWrite --cluster",
    KafkaError.TOPIC_EXCEPTION: "Topic names have letters, digits, '.', '_' and '-' and at most 249 of them;"
    " see route.topic and the row's own topic.",
    KafkaError.INVALID_RECORD: "The topic does not accept such a record; a compacted topic needs a key.",
    KafkaError.INVALID_MSG_SIZE: "Raise the topic's max.message.bytes.",
    KafkaError.RECORD_LIST_TOO_LARGE: "Raise segment.bytes of the topic, or lower batch.size under sink.options.",
    KafkaError.POLICY_VIOLATION: "A policy of the broker forbids it; the broker's log says which.",
    KafkaError.INVALID_TIMESTAMP: "The message's time is that of the commit, {time}. If that is in the future,"
    " PostgreSQL's clock is or was ahead of the broker's: correct it, then wait until that time, or let the topic"
    " accept it: kafka-configs.sh --alter --topic {topic}"
    " --add-config message.timestamp.after.max.ms=... (if it is long past:"
    " message.timestamp.before.max.ms).",
    KafkaError.UNSUPPORTED_FOR_MESSAGE_FORMAT: "The topic has an old message format, without headers: raise"
    " message.format.version.",
    KafkaError._INVALID_ARG: "The client library cannot make a Kafka record of it: look at its topic and headers.",
    KafkaError._VALUE_SERIALIZATION: "The value cannot be serialized for Kafka.",
    KafkaError._KEY_SERIALIZATION: "The key cannot be serialized for Kafka.",
}

_KINDS = {
    KafkaError.MSG_SIZE_TOO_LARGE: ("too_large", "message"),
    KafkaError.INVALID_MSG_SIZE: ("too_large", "message"),
    KafkaError.RECORD_LIST_TOO_LARGE: ("too_large", "message"),
    KafkaError.UNKNOWN_TOPIC_OR_PART: ("unknown_topic", "topic"),
    KafkaError._UNKNOWN_TOPIC: ("unknown_topic", "topic"),
    KafkaError._UNKNOWN_PARTITION: ("unknown_partition", "message"),
    KafkaError.TOPIC_EXCEPTION: ("invalid_topic", "topic"),
    KafkaError.TOPIC_AUTHORIZATION_FAILED: ("not_authorized", "topic"),
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: ("not_authorized", "sink"),
    KafkaError.INVALID_RECORD: ("invalid_record", "message"),
    KafkaError.INVALID_TIMESTAMP: ("invalid_record", "message"),
    KafkaError.UNSUPPORTED_FOR_MESSAGE_FORMAT: ("invalid_record", "topic"),
    KafkaError.POLICY_VIOLATION: ("policy_violation", "message"),
    KafkaError._INVALID_ARG: ("serialization", "message"),
    KafkaError._VALUE_SERIALIZATION: ("serialization", "message"),
    KafkaError._KEY_SERIALIZATION: ("serialization", "message"),
}
"""For each error the word that dead letters are filtered by, and what is refused: the message, its topic, or all that
the sink sends.
"""

_OF_THE_MESSAGE = {
    KafkaError.TOPIC_EXCEPTION,
    KafkaError.INVALID_RECORD,
    KafkaError.POLICY_VIOLATION,
    KafkaError._INVALID_ARG,
    KafkaError._VALUE_SERIALIZATION,
    KafkaError._KEY_SERIALIZATION,
}
"""Errors that the content of the message causes: no change of the broker or of the row cures them."""


def colliding(name: str, names: Iterable[str]) -> str:
    """A topic because of which Kafka does not make one of that name; empty if there is none."""
    return next((each for each in names if each != name and each.replace(".", "_") == name.replace(".", "_")), "")


class Failure(NamedTuple):
    """A message that did not become durable. `certain`: the error is about this message and not about its batch.
    `sent`: it had gone to the broker. `number`: which of its group's offers it is, if the group keeps them.
    """

    ticket: int
    message: Message
    error: KafkaError
    certain: bool
    sent: bool = True
    number: int = -1

    @property
    def is_refusal(self) -> bool:
        return is_refusal(self.error, self.message)

    def as_refusal(self, *, ends: bool) -> Refusal:
        """`ends`: the sink takes no message after it."""
        ticket, message, error = self.ticket, self.message, self.error
        code = _code_for(error, message)
        return Refusal(ticket, message, error.str(), _hint_for(code, message), *_KINDS[code], ends)


def is_refusal(error: KafkaError, message: Message) -> bool:
    """Whether the message will be refused again; otherwise a new producer may well succeed: it chooses anew among the
    partitions of a topic that was made again with fewer.
    """
    chosen_here = error.code() == KafkaError._UNKNOWN_PARTITION and message.partition == ANY_PARTITION
    return error.code() in _HINTS and not chosen_here


def reported_message(delivered: Delivered) -> Message:
    """A delivery report has no headers."""
    partition = delivered.partition()
    return Message(
        delivered.topic() or "",
        delivered.key(),
        delivered.value(),
        [],
        0,
        ANY_PARTITION if partition is None else partition,
    )


def error_of(cause: KafkaException | SystemError | ValueError | TypeError) -> KafkaError:
    """The error in an exception of the client library; a SystemError has it as its cause, the others are its answer to
    what it cannot make a record of: a NUL in the topic, for instance.
    """
    if isinstance(cause, ValueError | TypeError):
        return KafkaError(KafkaError._INVALID_ARG, str(cause))
    if isinstance(cause, SystemError):
        return KafkaError(KafkaError._FAIL, text_of(cause.__cause__ or cause))
    error = cause.args[0]
    return error if isinstance(error, KafkaError) else KafkaError(KafkaError._FAIL, str(error))


def text_of(cause: BaseException) -> str:
    return error_of(cause).str() if isinstance(cause, KafkaException) else str(cause)


def _code_for(error: KafkaError, message: Message) -> int:
    """Tell a name that no topic can have from a topic that is not there: a client that lacks the broker's answer about
    the name takes the one for the other.
    """
    code = error.code()
    if code in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC) and topic_fault(message.topic):
        return KafkaError.TOPIC_EXCEPTION
    return code


def _hint_for(code: int, message: Message) -> str:
    hint = _HINTS[code].format(topic=message.topic, time=_time(message.timestamp_ms), partition=message.partition)
    return f"{hint} {AS_IT_WAS_WRITTEN if code in _OF_THE_MESSAGE else START_AGAIN}"


def _time(milliseconds: int) -> str:
    """Beyond Python's calendar: the number as it is."""
    try:
        return f"{_EPOCH + timedelta(milliseconds=milliseconds)} UTC"
    except OverflowError:
        return f"{milliseconds} ms after 1970"


CLIENT_LOG = logging.getLogger("walrelay.kafka")
CLIENT_LOG.setLevel(logging.INFO)  # the root's level may be WARNING, and leave out that an outage ended
# librdkafka logs the first for every producer, the second for every close with messages in flight, as a "fatal error",
# and the third when a refused message ended a producer, as its settings ask for.
_EXPECTED = (
    "enable.gapless.guarantee is experimental",
    "Purged in flight",
    "Gap-less ordering would not be guaranteed",
)
CLIENT_LOG.addFilter(lambda entry: not any(text in entry.getMessage() for text in _EXPECTED))

_AGAIN = 60.0  # seconds between two log lines about one outage


class Outage:
    """No broker can be reached. Logged when it begins, once a minute, and when it ends.

    One for the process: each producer sees only a part of an outage.
    """

    def __init__(self) -> None:
        self._began = self._said = 0.0

    def lasts(self, why: str) -> None:
        now = monotonic()
        self._began = self._began or now
        if not self._said or now - self._said >= _AGAIN:
            self._said = now
            _say(
                logging.WARNING,
                "broker away",
                why=why,
                seconds=round(now - self._began),
                action="trying again; nothing is lost, and PostgreSQL keeps what waits",
            )

    def ended(self) -> None:
        if self._began:
            _say(logging.INFO, "broker back", after_seconds=round(monotonic() - self._began, 1))
        self._began = self._said = 0.0


class Complaints:
    """The client's last complaint, for `trouble`. The producer keeps it as error_cb, so it must not refer to the sink,
    which would outlive its run.
    """

    def __init__(self, outage: Outage, options: Mapping[str, object] = MappingProxyType({})) -> None:
        self.text = ""
        self._outage = outage
        self._files = files_among(options)
        self._stamp = stamp_of(*self._files)

    def __call__(self, error: KafkaError) -> None:
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            self.text = self.text or error.str()
            self._outage.lasts(self.text)
        else:
            self.text = error.str()

    def end_if_certificates_were_renewed(self) -> None:
        """Raises Retryable then, if there is a complaint: the client reads certificates when it is made."""
        if self._files and self.text and stamp_of(*self._files) != self._stamp:
            raise Retryable(f"another client is made, because the certificates were renewed: {self.text}")

    def answered(self) -> None:
        """A broker accepted a message: the complaints are outdated."""
        self.text = ""
        self._outage.ended()


def _say(level: int, event: str, **fields: object) -> None:
    CLIENT_LOG.log(level, event, extra={"fields": fields})
