"""What was published since a time, read again: as a consumer that only sees what is committed, in no group.

A partition ends where it ended when the reading began: a consumer that waited for its very end would never be done
with a topic that somebody writes to. Behind an open transaction nothing is to be seen; it is waited for, for a while.
"""

from collections.abc import Iterable, Iterator, Sequence
from time import monotonic
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka import Message as Consumed

from walrelay.errors import Fatal, Retryable
from walrelay.model import REPLAYED
from walrelay.publish.contract import Found, Span
from walrelay.sinks.kafka.recall import NOT_ALLOWED, consumer_options, partitions_of
from walrelay.sinks.kafka.settings import KafkaSettings

_PATIENCE = 15.0  # seconds without anything new, and for open transactions
_REQUEST = 5.0
_AT_ONCE = 1000  # messages

_Where = tuple[str, int]


def read_back(settings: KafkaSettings, topics: Sequence[str], since_ms: int) -> Iterator[Found | Span]:
    """See `walrelay.publish.ReadBack`."""
    options = consumer_options(settings)
    try:
        # Asked by a consumer that sees only what is committed, the broker tells the end of that for a partition's end.
        scout, consumer = Consumer({**options, "isolation.level": "read_uncommitted"}), Consumer(options)
    except (KafkaException, ValueError, TypeError) as cause:
        raise Fatal(
            f"librdkafka does not accept the sink's settings for a consumer: {cause}",
            hint="Correct the names and values under sink.options.",
        ) from cause
    try:
        yield from _Reading(consumer, _spans(scout, topics, since_ms)).all()
    except KafkaException as cause:
        raise _explained(cause) from cause
    finally:
        scout.close()
        consumer.close()


def _spans(scout: Consumer, topics: Sequence[str], since_ms: int) -> Iterator[Span]:
    """Where each partition is to be read from, and where it ends now."""
    partitions = partitions_of(scout, topics)
    for partition in partitions:
        partition.offset = since_ms
    for found in scout.offsets_for_times(partitions, timeout=_REQUEST) if partitions else ():
        if found.error is not None:
            raise KafkaException(found.error)
        low, high = scout.get_watermark_offsets(found, timeout=_REQUEST)
        began = max(low, found.offset) if 0 <= found.offset < high else high  # -1: there is none so late
        yield Span(found.topic, found.partition, low, began, began, high, None)


class _Reading:
    """The partitions that are not at their end yet, and how far each got."""

    def __init__(self, consumer: Consumer, spans: Iterable[Span]) -> None:
        self._consumer = consumer
        self._unread: dict[_Where, Span] = {}
        self._hidden: dict[_Where, Span] = {}  # at their end, as far as they can be seen now
        self._nothing: list[Span] = []
        for span in spans:
            if span.began < span.high:
                self._unread[span.topic, span.partition] = span
            else:
                self._nothing.append(span)

    def all(self) -> Iterator[Found | Span]:
        if self._unread:
            self._consumer.assign([TopicPartition(*where, span.began) for where, span in self._unread.items()])
        yield from self._nothing
        heard = monotonic()
        while self._unread:
            for message in self._consumer.consume(_AT_ONCE, timeout=0.2):
                if (error := message.error()) is None:
                    heard = monotonic()
                    yield from self._take(message)
                elif error.code() == KafkaError._PARTITION_EOF:
                    yield from self._at_the_end(message)
                else:
                    raise KafkaException(error)
            if monotonic() - heard > _PATIENCE:
                yield from self._give_up()

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
            yield self._over(where, span.high)

    def _at_the_end(self, message: Consumed) -> Iterator[Span]:
        where, end = _where(message), message.offset() or 0
        span = self._unread.get(where)
        if span is not None and end >= span.high:
            yield self._over(where, span.high)
        elif span is not None:
            self._hidden[where] = span._replace(ended=end)

    def _over(self, where: _Where, ended: int) -> Span:
        self._hidden.pop(where, None)
        span = self._unread.pop(where)._replace(ended=ended)
        self._consumer.pause([TopicPartition(*where)])
        return span

    def _give_up(self) -> Iterator[Span]:
        """What can be seen of the hidden ones has been; the others are the broker's fault."""
        if silent := self._unread.keys() - self._hidden.keys():
            raise Retryable(f"Kafka gave nothing more of {len(silent)} partitions within {_PATIENCE:g} s")
        for where in list(self._hidden):
            yield self._over(where, self._hidden[where].ended)


def _found(message: Consumed, where: _Where, offset: int, timestamp_ms: int) -> Found | None:
    """None: it is not of walrelay."""
    headers: dict[str, Any] = dict(message.headers() or [])
    identity, position = headers.get("id"), headers.get("position")
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
    )


def _where(message: Consumed) -> _Where:
    return message.topic() or "", message.partition() or 0


def _explained(cause: KafkaException) -> Exception:
    error = cause.args[0]
    if isinstance(error, KafkaError) and error.code() in NOT_ALLOWED:
        return Fatal(
            f"the topics cannot be read: {error.str()}",
            hint="Allow walrelay's principal Read and Describe on the topics; publishing needs neither.",
        )
    return Retryable(f"the topics cannot be read: {error.str() if isinstance(error, KafkaError) else cause}")
