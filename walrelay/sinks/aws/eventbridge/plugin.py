"""The EventBridge sink's entry point; imports the client library only when a sink is opened."""

from collections.abc import Iterable, Iterator, Sequence

from walrelay.model import Finding
from walrelay.publish.contract import Sink, SinkPlugin, SinkTraits
from walrelay.sinks.address import AddressTemplate, place_by
from walrelay.sinks.aws.eventbridge.settings import EventbridgeSettings
from walrelay.sinks.clients import client_library
from walrelay.sinks.hosting import RefusalMemory


def _open(settings: EventbridgeSettings, memory: RefusalMemory) -> Sink:
    with client_library("AWS", "aws"):
        from walrelay.sinks.aws.eventbridge.api import EventbridgeApi
        from walrelay.sinks.aws.hosted import hosted
    return hosted(EventbridgeApi(settings), settings, memory)


def _examine(settings: EventbridgeSettings, topics: Sequence[str]) -> Iterable[Finding]:
    with client_library("AWS", "aws"):
        from walrelay.sinks.aws.eventbridge.doctor import examine
    return examine(settings, topics)


def _make_topics(
    settings: EventbridgeSettings, topics: Sequence[str], partitions: int, replication_factor: int | None
) -> Iterator[tuple[str, bool]]:
    with client_library("AWS", "aws"):
        from walrelay.sinks.aws.eventbridge.doctor import make_buses
    return make_buses(settings, topics)


plugin = SinkPlugin(
    EventbridgeSettings,
    open=_open,
    examine=_examine,
    memory=RefusalMemory,
    topic_fault=lambda name: "" if name else "a source has a name",
    place=lambda settings: place_by(AddressTemplate(settings.bus)),
    make_topics=_make_topics,
    traits=SinkTraits(
        durable="taken by the event bus, with an event id",
        order="none: sent in the order of each topic and key, delivered in any",
        repeats="recognised by the header id in the document",
        headers="in the document: any bytes, null; no repeated names",
        size="1 MB with headers",
        client="boto3",
        extra="aws",
    ),
)
