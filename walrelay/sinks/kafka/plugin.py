"""The Kafka sink's entry point; imports the client library only when a sink is opened."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from walrelay.model import Counting, Finding, System
from walrelay.publish.contract import (
    ExactlyOnce,
    ExactlyOnceSink,
    Expiry,
    Found,
    PositionKeeper,
    ReadNumbers,
    Recalled,
    Sink,
    SinkPlugin,
    SinkTraits,
    Span,
    TopicStream,
)
from walrelay.sinks.clients import client_library
from walrelay.sinks.kafka.settings import KafkaSettings


def _memory() -> Any:
    """One for each relay: what one broker refused says nothing about another."""
    with client_library("Kafka", "kafka"):
        from walrelay.sinks.kafka.batching import BatchingHistory
    return BatchingHistory()


def _client_numbers(history: Any) -> ReadNumbers:
    from walrelay.sinks.kafka.client_statistics import ClientStatistics

    history.statistics = ClientStatistics()
    read: ReadNumbers = history.statistics.numbers
    return read


def _open(settings: KafkaSettings, history: Any) -> Sink:
    with client_library("Kafka", "kafka"):
        from walrelay.sinks.kafka.sink import KafkaSink, UnbatchedSink
    return (UnbatchedSink if history.batch_refused else KafkaSink)(settings.client_options(), history)


def _open_exactly_once(
    settings: KafkaSettings, history: Any, system: System, slot: str, counting: Counting | None = None
) -> ExactlyOnceSink:
    with client_library("Kafka", "kafka"):
        from walrelay.sinks.kafka.transactions import KafkaTransactions
    return KafkaTransactions(settings, system, slot, history, counting)


def _open_positions(settings: KafkaSettings, system: System, slot: str) -> PositionKeeper:
    with client_library("Kafka", "kafka"):
        from walrelay.sinks.kafka.position_keeper import KafkaPositionKeeper
    return KafkaPositionKeeper(settings, system, slot)


def _examine_positions(settings: KafkaSettings) -> Iterable[Finding]:
    with client_library("Kafka", "kafka"):
        from walrelay.sinks.kafka.examine import examine_positions
    return examine_positions(settings)


def _examine(settings: KafkaSettings, topics: Sequence[str]) -> Iterable[Finding]:
    with client_library("Kafka", "kafka"):
        from walrelay.sinks.kafka.examine import examine
    return examine(settings, topics)


def _newest(settings: KafkaSettings, topics: Sequence[str], count: int) -> Recalled:
    with client_library("Kafka", "kafka"):
        from walrelay.sinks.kafka.read_back import newest
    return newest(settings, topics, count)


def _read_back(settings: KafkaSettings, topics: Sequence[str], since_ms: int) -> Iterator[Found | Span]:
    with client_library("Kafka", "kafka"):
        from walrelay.sinks.kafka.read_back import read_back
    return read_back(settings, topics, since_ms)


def _expiry(settings: KafkaSettings, topics: Sequence[str]) -> Mapping[str, Expiry]:
    with client_library("Kafka", "kafka"):
        from walrelay.sinks.kafka.expiry import expiry
    return expiry(settings, topics)


def _topic_stream(settings: KafkaSettings, topics: Sequence[str], since_ms: int) -> AbstractContextManager[TopicStream]:
    with client_library("Kafka", "kafka"):
        from walrelay.sinks.kafka.topic_stream import topic_stream
    return topic_stream(settings, topics, since_ms)


def _make_topics(
    settings: KafkaSettings, topics: Sequence[str], partitions: int, replication_factor: int | None
) -> Iterator[tuple[str, bool]]:
    with client_library("Kafka", "kafka"):
        from walrelay.sinks.kafka.topics import make_topics
    return make_topics(settings, topics, partitions, replication_factor)


def topic_fault(name: str) -> str:
    """By Kafka's rule for names; only `.` and `..` are made of these and refused."""
    if strange := sorted(set(re.sub(r"[a-zA-Z0-9._-]", "", name))):
        return f"a name has letters, digits, '.', '_' and '-', and not {''.join(strange)!r}"
    return "" if 0 < len(name) <= 249 and name not in (".", "..") else "a name has 1 to 249 characters"


plugin = SinkPlugin(
    KafkaSettings,
    open=_open,
    examine=_examine,
    memory=_memory,
    topic_fault=topic_fault,
    exactly_once=ExactlyOnce(_open_exactly_once, _open_positions, _examine_positions),
    newest=_newest,
    read_back=_read_back,
    expiry=_expiry,
    topic_stream=_topic_stream,
    make_topics=_make_topics,
    partitions=True,
    client_numbers=_client_numbers,
    traits=SinkTraits(
        durable="all in-sync replicas have it (acks=all)",
        order="of each partition",
        repeats="recognised by the header id; exactly_once has none",
        headers="any bytes, null, repeated names",
        size="max.message.bytes of the topic, 1 MiB by default",
        client="confluent_kafka",
        extra="kafka",
    ),
)
