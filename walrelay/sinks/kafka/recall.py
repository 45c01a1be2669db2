"""Which events the topics have: the ends of their partitions, read back as a consumer that only sees what is committed.

It belongs to no group and commits no offset. What it asks for is Read and Describe on the topics, which a producer
need not have.
"""

from collections.abc import Sequence
from time import monotonic, sleep
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka import Message as Consumed

from walrelay.errors import Fatal, Retryable
from walrelay.publish.contract import Recalled
from walrelay.sinks.kafka.settings import KafkaSettings

_PATIENCE = 15.0  # seconds without anything new
_REQUEST = 5.0
_SURE, _AGAIN = 2.0, 0.1  # seconds: a broker whose metadata are behind says of a topic that it is not there
_AT_ONCE = 1000  # messages
_MOST = 500_000  # messages of all partitions together, some 100 bytes each in memory

NOT_ALLOWED = {KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED}
_NOT_THERE = {
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
}


def newest(settings: KafkaSettings, topics: Sequence[str], count: int) -> Recalled:
    """See `walrelay.publish.Recall`."""
    try:
        consumer = Consumer(consumer_options(settings))
    except (KafkaException, ValueError, TypeError) as cause:
        raise Fatal(
            f"librdkafka does not accept the sink's settings for a consumer: {cause}",
            hint="`--recall 0` goes on without reading the topics: more rows may be published again then.",
        ) from cause
    try:
        return _Reading(consumer, topics, count).read()
    except KafkaException as cause:
        raise _explained(cause) from cause
    finally:
        consumer.close()


def consumer_options(settings: KafkaSettings) -> dict[str, Any]:
    """The sink's own, as far as they are a client's: librdkafka passes over those of a producer."""
    own = settings.client_options()
    return {
        **{name: own[name] for name in settings.options if name in own},
        "client.id": "walrelay",
        "bootstrap.servers": settings.bootstrap_servers,
        "group.id": "walrelay",  # it must have one; without subscription or commit nobody hears of it
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
        "isolation.level": "read_committed",
        "allow.auto.create.topics": False,
        "queued.max.messages.kbytes": 8192,
        "log_level": 0,
    }


def partitions_of(consumer: Consumer, topics: Sequence[str]) -> list[TopicPartition]:
    """Of all of them, in their order. A topic has none if all brokers that are asked, for a while, say that it is not
    there: one that is behind would have what was published taken for missing.
    """
    found = dict[str, list[TopicPartition]]()
    deadline = monotonic() + _SURE
    while True:
        for topic in topics:
            if topic not in found and (there := _asked(consumer, topic)) is not None:
                found[topic] = there
        if len(found) == len(set(topics)) or monotonic() > deadline:
            return [partition for topic in topics for partition in found.get(topic, ())]
        sleep(_AGAIN)


def _asked(consumer: Consumer, topic: str) -> list[TopicPartition] | None:
    """None where this broker says that it is not there."""
    told = consumer.list_topics(topic, timeout=_REQUEST).topics[topic]
    if told.error is None:
        return [TopicPartition(topic, number) for number in told.partitions]
    if told.error.code() == KafkaError.TOPIC_EXCEPTION:  # no name for a topic
        return []
    if told.error.code() in _NOT_THERE:
        return None
    raise KafkaException(told.error)


class _Reading:
    """Every partition from where its newest messages begin up to its end."""

    def __init__(self, consumer: Consumer, topics: Sequence[str], count: int) -> None:
        self._consumer = consumer
        self._messages: list[tuple[str, str]] = []
        self._oldest: dict[tuple[str, int], int] = {}  # timestamps of partitions that were not read from the beginning
        self._unread: set[tuple[str, int]] = set()
        partitions = partitions_of(consumer, topics)
        share = min(count, _MOST // max(1, len(partitions)) or 1)
        self._assignment = [start for partition in partitions for start in self._start(partition, share)]

    def read(self) -> Recalled:
        if self._assignment:
            self._consumer.assign(self._assignment)
        heard = monotonic()
        while self._unread:
            for message in self._consumer.consume(_AT_ONCE, timeout=0.2):
                heard = monotonic()
                self._take(message)
            if monotonic() - heard > _PATIENCE:
                raise Retryable(f"Kafka gave nothing more of {len(self._unread)} partitions within {_PATIENCE:g} s")
        unknown = self._oldest.keys() - {where for where, oldest in self._oldest.items() if oldest >= 0}
        return Recalled(self._messages, None if unknown else max(self._oldest.values(), default=0))

    def _start(self, partition: TopicPartition, count: int) -> list[TopicPartition]:
        """Where to begin, if the partition has anything."""
        low, high = self._consumer.get_watermark_offsets(partition, timeout=_REQUEST)
        start, where = max(low, high - count), (partition.topic, partition.partition)
        if start > 0:
            self._oldest[where] = -1
        if start >= high:
            return []
        self._unread.add(where)
        return [TopicPartition(*where, start)]

    def _take(self, message: Consumed) -> None:
        where = (message.topic() or "", message.partition() or 0)
        if (error := message.error()) is not None:
            if error.code() != KafkaError._PARTITION_EOF:
                raise KafkaException(error)
            self._unread.discard(where)
            return
        if self._oldest.get(where) == -1:
            self._oldest[where] = message.timestamp()[1]
        headers = dict(message.headers() or [])
        identity, position = headers.get("id"), headers.get("position")
        if isinstance(identity, bytes) and isinstance(position, bytes):  # else it is not of walrelay
            self._messages.append((identity.decode("utf-8", "surrogateescape"), position.decode("ascii", "replace")))


def _explained(cause: KafkaException) -> Exception:
    error = cause.args[0]
    if isinstance(error, KafkaError) and error.code() in NOT_ALLOWED:
        return Fatal(
            f"the topics cannot be read back: {error.str()}",
            hint="Allow walrelay's principal Read and Describe on the topics for the time of the recovery, or go on"
            " without reading them, with `--recall 0`: more rows may be published again then.",
        )
    return Retryable(f"the topics cannot be read back: {error.str() if isinstance(error, KafkaError) else cause}")
