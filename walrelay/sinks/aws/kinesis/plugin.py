"""The Kinesis sink's entry point; imports the client library only when a sink is opened."""

from collections.abc import Iterable, Iterator, Sequence

from walrelay.model import Finding
from walrelay.publish.contract import Sink, SinkPlugin, SinkTraits
from walrelay.sinks.address import AddressTemplate, place_by
from walrelay.sinks.aws.kinesis.settings import KinesisSettings
from walrelay.sinks.clients import client_library
from walrelay.sinks.hosting import RefusalMemory


def _open(settings: KinesisSettings, memory: RefusalMemory) -> Sink:
    with client_library("AWS", "aws"):
        from walrelay.sinks.aws.hosted import hosted
        from walrelay.sinks.aws.kinesis.api import KinesisApi
    return hosted(KinesisApi(settings), settings, memory)


def _examine(settings: KinesisSettings, topics: Sequence[str]) -> Iterable[Finding]:
    with client_library("AWS", "aws"):
        from walrelay.sinks.aws.kinesis.doctor import examine
    return examine(settings, topics)


def _make_topics(
    settings: KinesisSettings, topics: Sequence[str], partitions: int, replication_factor: int | None
) -> Iterator[tuple[str, bool]]:
    with client_library("AWS", "aws"):
        from walrelay.sinks.aws.kinesis.doctor import make_streams
    return make_streams(settings, topics, partitions)


plugin = SinkPlugin(
    KinesisSettings,
    open=_open,
    examine=_examine,
    memory=RefusalMemory,
    topic_fault=lambda name: "" if name else "a stream has a name",
    place=lambda settings: place_by(AddressTemplate(settings.stream)),
    make_topics=_make_topics,
    traits=SinkTraits(
        durable="taken by the stream, with a sequence number",
        order="of each stream and key",
        repeats="recognised by the header id in the document",
        headers="in the document: any bytes, null; no repeated names",
        size="1 MiB with key and headers; up to 10 MiB where the stream allows it",
        client="boto3",
        extra="aws",
    ),
)
