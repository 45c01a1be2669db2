"""The Kafka sink's entry point; imports the client library only when a sink is opened."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from walrelay.errors import Fatal
from walrelay.model import Counting, Finding, System
from walrelay.publish.contract import ExactlyOnceSink, Found, PositionKeeper, Recalled, Sink, Span
from walrelay.sinks.kafka.settings import KafkaSettings


class KafkaPlugin:
    """See `walrelay.publish.SinkPlugin`, and `Recall`, `ReadBack` and `MakesTopics` there."""

    settings = KafkaSettings

    def __init__(self) -> None:
        self._history: Any = None  # a BatchingHistory, once a sink was opened

    def open(self, settings: KafkaSettings) -> Sink:
        with _client_library():
            from walrelay.sinks.kafka.batching import BatchingHistory
            from walrelay.sinks.kafka.sink import KafkaSink, UnbatchedSink
        self._history = self._history or BatchingHistory()
        kind = UnbatchedSink if self._history.batch_refused else KafkaSink
        return kind(settings.client_options(), self._history)

    def open_exactly_once(
        self, settings: KafkaSettings, system: System, slot: str, counting: Counting | None = None
    ) -> ExactlyOnceSink:
        with _client_library():
            from walrelay.sinks.kafka.batching import BatchingHistory
            from walrelay.sinks.kafka.transactions import KafkaTransactions
        self._history = self._history or BatchingHistory()
        return KafkaTransactions(settings, system, slot, self._history, counting)

    def examine_positions(self, settings: KafkaSettings) -> Iterable[Finding]:
        with _client_library():
            from walrelay.sinks.kafka.examine import examine_positions
        return examine_positions(settings)

    def open_positions(self, settings: KafkaSettings, system: System, slot: str) -> PositionKeeper:
        with _client_library():
            from walrelay.sinks.kafka.position_keeper import KafkaPositionKeeper
        return KafkaPositionKeeper(settings, system, slot)

    def examine(self, settings: KafkaSettings, topics: Sequence[str]) -> Iterable[Finding]:
        with _client_library():
            from walrelay.sinks.kafka.examine import examine
        return examine(settings, topics)

    def newest(self, settings: KafkaSettings, topics: Sequence[str], count: int) -> Recalled:
        with _client_library():
            from walrelay.sinks.kafka.read_back import newest
        return newest(settings, topics, count)

    def read_back(self, settings: KafkaSettings, topics: Sequence[str], since_ms: int) -> Iterator[Found | Span]:
        with _client_library():
            from walrelay.sinks.kafka.read_back import read_back
        return read_back(settings, topics, since_ms)

    def make_topics(
        self, settings: KafkaSettings, topics: Sequence[str], partitions: int, replication_factor: int | None
    ) -> Iterator[tuple[str, bool]]:
        with _client_library():
            from walrelay.sinks.kafka.topics import make_topics
        return make_topics(settings, topics, partitions, replication_factor)


@contextmanager
def _client_library() -> Iterator[None]:
    """Around imports that need it."""
    try:
        yield
    except ImportError as cause:
        raise Fatal(
            f"the Kafka client is not installed ({cause})",
            hint="Install it in the environment walrelay runs in: pip install 'walrelay[kafka]'",
        ) from cause


plugin = KafkaPlugin()
