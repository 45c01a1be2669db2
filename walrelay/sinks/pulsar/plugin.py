"""The Pulsar sink's entry point; imports the client library only when a sink is opened."""

from collections.abc import Iterable, Iterator, Sequence

from walrelay.model import Finding
from walrelay.publish.contract import Sink, SinkPlugin, SinkTraits
from walrelay.sinks.address import AddressTemplate, place_by
from walrelay.sinks.clients import client_library
from walrelay.sinks.hosting import RefusalMemory
from walrelay.sinks.pulsar.settings import PulsarSettings
from walrelay.sinks.pulsar.topics import topic_fault


def _open(settings: PulsarSettings, memory: RefusalMemory) -> Sink:
    with client_library("Pulsar", "pulsar"):
        from walrelay.sinks.pulsar.sink import PulsarSink
    return PulsarSink(settings, memory)


def _examine(settings: PulsarSettings, topics: Sequence[str]) -> Iterable[Finding]:
    with client_library("Pulsar", "pulsar"):
        from walrelay.sinks.pulsar.examine import examine
    return examine(settings, topics)


def _make_topics(
    settings: PulsarSettings, topics: Sequence[str], partitions: int, replication_factor: int | None
) -> Iterator[tuple[str, bool]]:
    from walrelay.sinks.pulsar.admin import make_topics

    return make_topics(settings, topics, partitions)


plugin = SinkPlugin(
    PulsarSettings,
    open=_open,
    examine=_examine,
    memory=RefusalMemory,
    topic_fault=topic_fault,
    place=lambda settings: place_by(AddressTemplate(settings.topic)),
    make_topics=_make_topics,
    traits=SinkTraits(
        durable="acknowledged by the broker, stored by a quorum of bookies",
        order="of each partition, which the key chooses",
        repeats="dropped within a run where the namespace deduplicates; recognised by the property id",
        headers="UTF-8; no null, no repeated names",
        size="maxMessageSize of the brokers, 5 MiB by default, headers included",
        client="pulsar",
        extra="pulsar",
    ),
)
