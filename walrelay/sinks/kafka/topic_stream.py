"""Topics read as one stream, in the order of the messages' timestamps, whoever published them.

librdkafka hands over partitions as their messages come. The stream waits until each partition has shown its next
message or its end, and takes the oldest; a partition that is ahead is paused, so memory stays bounded.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import Any

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka import Message as Consumed

from walrelay.errors import Retryable, SinkError
from walrelay.publish.contract import Span, TopicMessage
from walrelay.sinks.kafka.consumers import Purpose, consumer_for
from walrelay.sinks.kafka.read_back import spans_since
from walrelay.sinks.kafka.settings import KafkaSettings

_PATIENCE = 15.0  # seconds without a message that is known to be there
_AT_ONCE = 1000  # messages
_AHEAD, _AHEAD_BYTES = 1000, 2**21  # of a partition, before it is paused

_PURPOSE = Purpose(
    "read",
    "Correct the names and values under sink.options.",
    "Allow walrelay's principal Read and Describe on the topics; publishing needs neither.",
)


@contextmanager
def topic_stream(settings: KafkaSettings, topics: Sequence[str], since_ms: int) -> Iterator["KafkaTopicStream"]:
    """See `SinkPlugin.topic_stream`."""
    with (
        consumer_for(settings, _PURPOSE, isolation="read_uncommitted") as asking,
        consumer_for(settings, _PURPOSE) as consumer,
    ):
        spans = list(spans_since(asking, topics, since_ms))
        for topic in topics:
            if not any(span.topic == topic for span in spans):
                raise SinkError(f"there is no topic {topic!r}", hint="Check its name and sink.bootstrap_servers.")
        yield KafkaTopicStream(consumer, spans)


class _Partition:
    """What was read ahead of one partition."""

    def __init__(self, span: Span) -> None:
        self.place = TopicPartition(span.topic, span.partition)
        self.high, self.reached = span.high, span.began
        self.messages = deque[TopicMessage]()
        self.size = 0
        self.at_end = self.paused = False

    def put(self, message: Consumed) -> None:
        kind, timestamp_ms = message.timestamp()
        given: Any = message.headers() or ()
        headers = tuple((name, _bytes(value)) for name, value in given)
        key, value = _bytes(message.key()), _bytes(message.value())
        appended = kind == TIMESTAMP_LOG_APPEND_TIME
        self.messages.append(
            TopicMessage(
                self.place.topic,
                self.place.partition,
                message.offset() or 0,
                timestamp_ms,
                appended,
                key,
                value,
                headers,
            )
        )
        self.size += len(value or b"")
        self.at_end = False

    def take(self) -> TopicMessage:
        message = self.messages.popleft()
        self.size -= len(message.value or b"")
        self.reached = message.offset + 1
        return message

    @property
    def over(self) -> bool:
        """Read up to where it ended when it was opened, or as far as can be seen."""
        return self.reached >= self.high or (self.at_end and not self.messages)

    @property
    def is_ahead(self) -> bool:
        return len(self.messages) >= _AHEAD or self.size >= _AHEAD_BYTES


class KafkaTopicStream:
    """Implements `walrelay.publish.TopicStream`."""

    def __init__(self, consumer: Consumer, spans: Sequence[Span]) -> None:
        self._consumer = consumer
        self._partitions = {(span.topic, span.partition): _Partition(span) for span in spans}
        self._heard = monotonic()
        consumer.assign([TopicPartition(span.topic, span.partition, span.began) for span in spans])

    def next(self, timeout: float) -> TopicMessage | None:
        deadline = monotonic() + timeout
        while any(not each.messages and not each.at_end for each in self._partitions.values()):
            self._poll(max(0.0, deadline - monotonic()))
            if monotonic() >= deadline:
                return None
        if not any(each.messages for each in self._partitions.values()):
            self._poll(timeout)
        waiting = [each for each in self._partitions.values() if each.messages]
        return min(waiting, key=lambda each: each.messages[0].timestamp_ms).take() if waiting else None

    @property
    def over(self) -> bool:
        return all(each.over for each in self._partitions.values())

    def _poll(self, timeout: float) -> None:
        self._set_the_pace()
        received = [*self._consumer.consume(1, timeout=timeout), *self._consumer.consume(_AT_ONCE, timeout=0)]
        for message in received:
            partition = self._partitions[message.topic() or "", message.partition() or 0]
            if (error := message.error()) is None:
                partition.put(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                partition.at_end = True
            else:
                raise KafkaException(error)
        if received or self.over:
            self._heard = monotonic()
        elif monotonic() - self._heard > _PATIENCE:
            raise Retryable(f"Kafka sent nothing more within {_PATIENCE:g} s")

    def _set_the_pace(self) -> None:
        pausing = [each for each in self._partitions.values() if each.is_ahead and not each.paused]
        resuming = [each for each in self._partitions.values() if not each.is_ahead and each.paused]
        for partitions, paused, change in (
            (pausing, True, self._consumer.pause),
            (resuming, False, self._consumer.resume),
        ):
            if partitions:
                change([each.place for each in partitions])
            for each in partitions:
                each.paused = paused


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
