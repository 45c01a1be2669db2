"""Consumers for reading topics again.

Each sees only what is committed, joins no group and commits no offset. It needs Read and Describe on the topics, which
a producer need not have.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from time import monotonic, sleep
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from walrelay.errors import Retryable, SinkError, WalrelayError
from walrelay.sinks.kafka.errors import NOT_THERE, error_of
from walrelay.sinks.kafka.settings import KafkaSettings

REQUEST_TIMEOUT = 5.0  # seconds for an answer
_METADATA_WAIT, _AGAIN = 2.0, 0.1  # seconds: a broker whose metadata are behind says that a topic does not exist

_NOT_ALLOWED = {KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED}


class Purpose(NamedTuple):
    """What the topics are read for, as the hints of an error need it."""

    action: str
    if_options_are_wrong: str
    if_not_allowed: str


@contextmanager
def consumer_for(settings: KafkaSettings, purpose: Purpose, isolation: str = "read_committed") -> Iterator[Consumer]:
    """A consumer whose errors say what the topics were read for."""
    try:
        consumer = Consumer({**_options(settings), "isolation.level": isolation})
    except (KafkaException, ValueError, TypeError) as cause:
        raise SinkError(
            f"librdkafka does not accept the sink's settings for a consumer: {cause}",
            hint=purpose.if_options_are_wrong,
        ) from cause
    try:
        yield consumer
    except KafkaException as cause:
        raise _explained(cause, purpose) from cause
    finally:
        consumer.close()


def _explained(cause: KafkaException, purpose: Purpose) -> WalrelayError:
    error = error_of(cause)
    text = f"the topics cannot be {purpose.action}: {error.str()}"
    if error.code() in _NOT_ALLOWED:
        return SinkError(text, hint=purpose.if_not_allowed)
    return Retryable(text)


def _options(settings: KafkaSettings) -> dict[str, Any]:
    """The sink's own options; librdkafka ignores those that only a producer has."""
    own = settings.client_options()
    return {
        **{name: own[name] for name in settings.options if name in own},
        "client.id": "walrelay",
        "bootstrap.servers": settings.bootstrap_servers,
        "group.id": "walrelay",  # required; without subscription and commit no broker sees it
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
        "allow.auto.create.topics": False,
        "queued.max.messages.kbytes": 8192,
        "log_level": 0,
    }


def all_partitions(consumer: Consumer, topics: Sequence[str]) -> list[TopicPartition]:
    """All partitions of the topics, in order. A topic counts as missing only if brokers answer so for a while: the
    metadata of one of them may be behind.
    """
    found = dict[str, list[TopicPartition]]()
    deadline = monotonic() + _METADATA_WAIT
    while True:
        for topic in topics:
            if topic not in found and (there := _asked(consumer, topic)) is not None:
                found[topic] = there
        if len(found) == len(set(topics)) or monotonic() > deadline:
            return [partition for topic in topics for partition in found.get(topic, ())]
        sleep(_AGAIN)


def _asked(consumer: Consumer, topic: str) -> list[TopicPartition] | None:
    """None if this broker says that the topic does not exist."""
    found = consumer.list_topics(topic, timeout=REQUEST_TIMEOUT).topics[topic]
    if found.error is None:
        return [TopicPartition(topic, number) for number in found.partitions]
    if found.error.code() == KafkaError.TOPIC_EXCEPTION:  # no name for a topic
        return []
    if found.error.code() in NOT_THERE:
        return None
    raise KafkaException(found.error)
