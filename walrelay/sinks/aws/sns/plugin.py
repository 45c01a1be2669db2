"""The SNS sink's entry point; imports the client library only when a sink is opened."""

from collections.abc import Iterable, Iterator, Sequence

from walrelay.model import Finding
from walrelay.publish.contract import Sink, SinkPlugin, SinkTraits
from walrelay.sinks.address import AddressTemplate, place_by
from walrelay.sinks.aws.sns.settings import SnsSettings
from walrelay.sinks.clients import client_library
from walrelay.sinks.hosting import RefusalMemory


def _open(settings: SnsSettings, memory: RefusalMemory) -> Sink:
    with client_library("AWS", "aws"):
        from walrelay.sinks.aws.hosted import hosted
        from walrelay.sinks.aws.sns.api import SnsApi
    return hosted(SnsApi(settings), settings, memory, ordered=settings.ordering == "per_key")


def _examine(settings: SnsSettings, topics: Sequence[str]) -> Iterable[Finding]:
    with client_library("AWS", "aws"):
        from walrelay.sinks.aws.sns.doctor import examine
    return examine(settings, topics)


def _make_topics(
    settings: SnsSettings, topics: Sequence[str], partitions: int, replication_factor: int | None
) -> Iterator[tuple[str, bool]]:
    with client_library("AWS", "aws"):
        from walrelay.sinks.aws.sns.doctor import make_sns_topics
    return make_sns_topics(settings, topics)


plugin = SinkPlugin(
    SnsSettings,
    open=_open,
    examine=_examine,
    memory=RefusalMemory,
    topic_fault=lambda name: "" if name else "a topic has a name",
    place=lambda settings: place_by(AddressTemplate(settings.topic_arn)),
    make_topics=_make_topics,
    traits=SinkTraits(
        durable="taken by the topic (`Successful`), which delivers it to its subscriptions",
        order="of each topic and key, in FIFO topics; none in standard topics, with ordering: none",
        repeats="dropped by a FIFO topic for 5 minutes; recognised by the attribute id",
        headers="10 with the key; names of letters, digits, _, - and .; none empty; any number with format: document",
        size="256 KiB, headers included; up to 1 MiB where the topic allows it",
        client="boto3",
        extra="aws",
    ),
)
