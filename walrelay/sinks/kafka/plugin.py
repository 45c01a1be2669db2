"""The Kafka sink's entry point; imports the client library only when a sink is opened."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from walrelay.errors import Fatal
from walrelay.model import Counting, Finding, System
from walrelay.publish.contract import ExactlyOnceSink, Found, PositionKeeper, Recalled, Sink, Span
from walrelay.sinks.kafka.settings import KafkaSettings


class KafkaPlugin:
    """See `walrelay.publish.SinkPlugin`, and `Recall`, `ReadBack` and `MakesTopics` there."""

    settings = KafkaSettings

    def __init__(self) -> None:
        self._experience: Any = None

    def open(self, settings: KafkaSettings) -> Sink:
        try:
            from walrelay.sinks.kafka.sink import Experience, KafkaSink
            from walrelay.sinks.kafka.unbatched import OneByOne
        except ImportError as cause:
            raise _not_installed(cause) from cause
        self._experience = self._experience or Experience()
        kind = OneByOne if self._experience.batch_refused else KafkaSink
        return kind(settings.client_options(), self._experience)

    def open_exactly_once(
        self, settings: KafkaSettings, system: System, slot: str, counting: Counting | None = None
    ) -> ExactlyOnceSink:
        try:
            from walrelay.sinks.kafka.sink import Experience
            from walrelay.sinks.kafka.transactions import KafkaTransactions
        except ImportError as cause:
            raise _not_installed(cause) from cause
        self._experience = self._experience or Experience()
        return KafkaTransactions(settings, system, slot, self._experience, counting)

    def examine_positions(self, settings: KafkaSettings) -> Iterable[Finding]:
        try:
            from walrelay.sinks.kafka.examine_positions import examine_positions
        except ImportError as cause:
            raise _not_installed(cause) from cause
        return examine_positions(settings)

    def open_positions(self, settings: KafkaSettings, system: System, slot: str) -> PositionKeeper:
        try:
            from walrelay.sinks.kafka.topic_positions import TopicPositions
        except ImportError as cause:
            raise _not_installed(cause) from cause
        return TopicPositions(settings, system, slot)

    def examine(self, settings: KafkaSettings, topics: Sequence[str]) -> Iterable[Finding]:
        try:
            from walrelay.sinks.kafka.examine import examine
        except ImportError as cause:
            raise _not_installed(cause) from cause
        return examine(settings, topics)

    def newest(self, settings: KafkaSettings, topics: Sequence[str], count: int) -> Recalled:
        try:
            from walrelay.sinks.kafka.read_back import newest
        except ImportError as cause:
            raise _not_installed(cause) from cause
        return newest(settings, topics, count)

    def read_back(self, settings: KafkaSettings, topics: Sequence[str], since_ms: int) -> Iterator[Found | Span]:
        try:
            from walrelay.sinks.kafka.read_back import read_back
        except ImportError as cause:
            raise _not_installed(cause) from cause
        return read_back(settings, topics, since_ms)

    def make_topics(
        self, settings: KafkaSettings, topics: Sequence[str], partitions: int, replication_factor: int | None
    ) -> Iterator[tuple[str, bool]]:
        try:
            from walrelay.sinks.kafka.make_topics import make_topics
        except ImportError as cause:
            raise _not_installed(cause) from cause
        return make_topics(settings, topics, partitions, replication_factor)


def _not_installed(cause: ImportError) -> Fatal:
    return Fatal(
        f"the Kafka client is not installed ({cause})",
        hint="Install it in the environment walrelay runs in: pip install 'walrelay[kafka]'",
    )


plugin = KafkaPlugin()
