"""The Pub/Sub sink's entry point; imports the client library only when a sink is opened."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from math import inf

from walrelay.model import Finding
from walrelay.publish.contract import Sink, SinkPlugin, SinkTraits
from walrelay.sinks.address import AddressTemplate, place_by
from walrelay.sinks.clients import client_library
from walrelay.sinks.hosting import HostedSink, PreparedMessages, RefusalMemory
from walrelay.sinks.pubsub.names import MOST_IN_REQUEST, lane_by, letters_fault
from walrelay.sinks.pubsub.settings import PubsubSettings

_TOGETHER = 1_000_000  # bytes of a request, as an ordering key may have in a second


def _open(settings: PubsubSettings, memory: RefusalMemory) -> Sink:
    with client_library("Pub/Sub", "pubsub"):
        from walrelay.sinks.pubsub.connection import PubsubConnection
        from walrelay.sinks.pubsub.messages import PubsubOutgoing
    return HostedSink(
        partial(PubsubConnection, settings, PreparedMessages[PubsubOutgoing]()),
        settings.window._replace(seconds=inf),  # each request has its own deadline
        memory,
        "Pub/Sub",
        lane_of=lane_by(settings.topic),
        width=MOST_IN_REQUEST,
        width_bytes=_TOGETHER,
    )


def _examine(settings: PubsubSettings, topics: Sequence[str]) -> Iterable[Finding]:
    with client_library("Pub/Sub", "pubsub"):
        from walrelay.sinks.pubsub.topics import examine
    return examine(settings, topics)


def _make_topics(
    settings: PubsubSettings, topics: Sequence[str], partitions: int, replication_factor: int | None
) -> Iterator[tuple[str, bool]]:
    with client_library("Pub/Sub", "pubsub"):
        from walrelay.sinks.pubsub.topics import make_topics
    return make_topics(settings, topics)


plugin = SinkPlugin(
    PubsubSettings,
    open=_open,
    examine=_examine,
    memory=RefusalMemory,
    topic_fault=letters_fault,
    place=lambda settings: place_by(AddressTemplate(settings.topic)),
    make_topics=_make_topics,
    traits=SinkTraits(
        durable="has an id: Pub/Sub has stored it",
        order="of each topic and key, in subscriptions with message ordering",
        repeats="recognised by the attribute id",
        headers="UTF-8; no null, no repeated names, no goog*; 100 of 256 and 1,024 bytes",
        size="10 MB, attributes included",
        client="google.pubsub_v1",
        extra="pubsub",
    ),
)
