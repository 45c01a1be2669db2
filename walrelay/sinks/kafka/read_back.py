"""Topics read back: the newest messages of each partition, or every message since a time.

A partition is read up to where it ended when the reading began: a consumer that waited for its very end would never
finish a topic that others write to. Messages behind an open transaction cannot be seen; the reader waits for them, but
not for ever.
"""

from collections.abc import Iterable, Iterator, Sequence
from time import monotonic
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka import Message as Consumed

from walrelay.errors import Retryable
from walrelay.model import EVENT_ID, REPLAYED
from walrelay.publish.contract import Found, Recalled, RecalledMessage, Span
from walrelay.sinks.kafka.consumers import REQUEST_TIMEOUT, Purpose, all_partitions, consumer_for
from walrelay.sinks.kafka.settings import KafkaSettings

_PATIENCE = 15.0  # seconds without another message, and for open transactions
_AT_ONCE = 1000  # messages
_MOST = 500_000  # messages of all partitions together, some 100 bytes each in memory

_Where = tuple[str, int]

_NEWEST = Purpose(
    "read back",
    "`--recall 0` goes on without reading the topics: more rows may be published again then.",
    "Allow walrelay's principal Read and Describe on the topics for the time of the recovery, or go on"
    " without reading them, with `--recall 0`: more rows may be published again then.",
)
_SINCE = Purpose(
    "read",
    "Correct the names and values under sink.options.",
    "Allow walrelay's principal Read and Describe on the topics; publishing needs neither.",
)


def newest(settings: KafkaSettings, topics: Sequence[str], count: int) -> Recalled:
    """See `SinkPlugin.newest`."""
    messages: list[RecalledMessage] = []
    oldest: list[int | None] = []  # timestamps, of the partitions that were not read from the beginning
    with consumer_for(settings, _NEWEST) as consumer:
        for each in _TopicReading(consumer, _newest_spans(consumer, topics, count)).all():
            if isinstance(each, Found):
                topic = each.meant_for if each.letter else each.topic
                messages.append(RecalledMessage(topic, each.id, each.position, each.content, each.letter))
            elif each.ended < each.high:
                oldest.append(None)  # its end could not be seen: nothing is known to be complete
            elif each.began > 0:
                oldest.append(each.oldest_ms)
    known = [timestamp_ms for timestamp_ms in oldest if timestamp_ms is not None and timestamp_ms >= 0]
    return Recalled(messages, max(known, default=0) if len(known) == len(oldest) else None)


def read_back(settings: KafkaSettings, topics: Sequence[str], since_ms: int) -> Iterator[Found | Span]:
    """See `SinkPlugin.read_back`."""
    # For a consumer that sees only what is committed, the end of that is the end of the partition.
    with (
        consumer_for(settings, _SINCE, isolation="read_uncommitted") as asking,
        consumer_for(settings, _SINCE) as consumer,
    ):
        yield from _TopicReading(consumer, spans_since(asking, topics, since_ms)).all()


def _newest_spans(consumer: Consumer, topics: Sequence[str], count: int) -> Iterator[Span]:
    """The last `count` offsets of each partition; fewer where all partitions together would be too many."""
    partitions = all_partitions(consumer, topics)
    share = min(count, _MOST // max(1, len(partitions)) or 1)
    for partition in partitions:
        low, high = consumer.get_watermark_offsets(partition, timeout=REQUEST_TIMEOUT)
        began = max(low, high - share)
        yield Span(partition.topic, partition.partition, low, began, began, high, None)


def spans_since(consumer: Consumer, topics: Sequence[str], since_ms: int) -> Iterator[Span]:
    """Each partition from its first message of that time or later."""
    partitions = all_partitions(consumer, topics)
    for partition in partitions:
        partition.offset = since_ms
    for found in consumer.offsets_for_times(partitions, timeout=REQUEST_TIMEOUT) if partitions else ():
        if found.error is not None:
            raise KafkaException(found.error)
        low, high = consumer.get_watermark_offsets(found, timeout=REQUEST_TIMEOUT)
        began = max(low, found.offset) if 0 <= found.offset < high else high  # -1: there is none so late
        yield Span(found.topic, found.partition, low, began, began, high, None)


class _TopicReading:
    """Reads all partitions in one loop, and knows how far each was read."""

    def __init__(self, consumer: Consumer, spans: Iterable[Span]) -> None:
        self._consumer = consumer
        self._unread: dict[_Where, Span] = {}
        self._hidden: dict[_Where, Span] = {}  # read as far as can be seen now
        self._empty: list[Span] = []
        for span in spans:
            if span.began < span.high:
                self._unread[span.topic, span.partition] = span
            else:
                self._empty.append(span)

    def all(self) -> Iterator[Found | Span]:
        """Yields every message that walrelay published, and each partition's span when it is read."""
        if self._unread:
            self._consumer.assign([TopicPartition(*where, span.began) for where, span in self._unread.items()])
        yield from self._empty
        heard = monotonic()
        while self._unread:
            for message in self._next():
                heard = monotonic()
                if (error := message.error()) is None:
                    yield from self._take(message)
                elif error.code() == KafkaError._PARTITION_EOF:
                    yield from self._at_the_end(message)
                else:
                    raise KafkaException(error)
            if monotonic() - heard > _PATIENCE:
                yield from self._give_up()

    def _next(self) -> list[Consumed]:
        """`consume` waits until it has as many as it was asked for, so it waits for the first one only."""
        return [*self._consumer.consume(1, timeout=0.2), *self._consumer.consume(_AT_ONCE, timeout=0)]

    def _take(self, message: Consumed) -> Iterator[Found | Span]:
        where, offset, timestamp_ms = _where(message), message.offset() or 0, message.timestamp()[1]
        span = self._unread.get(where)
        if span is None:
            return
        if offset < span.high:
            oldest = timestamp_ms if span.oldest_ms is None else span.oldest_ms
            span = self._unread[where] = span._replace(ended=offset + 1, oldest_ms=oldest)
            if (found := _found(message, where, offset, timestamp_ms)) is not None:
                yield found
        if offset + 1 >= span.high:
            yield self._finish(where, span.high)

    def _at_the_end(self, message: Consumed) -> Iterator[Span]:
        where, end = _where(message), message.offset() or 0
        span = self._unread.get(where)
        if span is not None and end >= span.high:
            yield self._finish(where, span.high)
        elif span is not None:
            self._hidden[where] = span._replace(ended=end)

    def _finish(self, where: _Where, ended: int) -> Span:
        self._hidden.pop(where, None)
        span = self._unread.pop(where)._replace(ended=ended)
        self._consumer.pause([TopicPartition(*where)])
        return span

    def _give_up(self) -> Iterator[Span]:
        """Ends the hidden partitions where they can be seen to. Retryable if a partition gave nothing at all."""
        if silent := self._unread.keys() - self._hidden.keys():
            raise Retryable(f"Kafka sent nothing more from {len(silent)} partitions within {_PATIENCE:g} s")
        for where in list(self._hidden):
            yield self._finish(where, self._hidden[where].ended)


def _found(message: Consumed, where: _Where, offset: int, timestamp_ms: int) -> Found | None:
    """None if walrelay did not publish it."""
    headers: dict[str, Any] = dict(message.headers() or [])
    identity, position = headers.get("id", headers.get(EVENT_ID)), headers.get("position")
    if not isinstance(identity, bytes) or not isinstance(position, bytes):
        return None
    return Found(
        *where,
        offset,
        timestamp_ms,
        message.key(),  # type: ignore[arg-type, unused-ignore]
        identity.decode("utf-8", "surrogateescape"),
        position.decode("ascii", "replace"),
        headers.get(REPLAYED[0]) == REPLAYED[1],
        "dead_letter_error" in headers,
        _text(headers.get("dead_letter_topic")),
        hash((message.key(), message.value())),
    )


def _text(value: bytes | None) -> str:
    return (value or b"").decode("utf-8", "surrogateescape")


def _where(message: Consumed) -> _Where:
    return message.topic() or "", message.partition() or 0
