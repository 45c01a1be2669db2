"""The SQS sink's entry point; imports the client library only when a sink is opened."""

from collections.abc import Iterable, Iterator, Sequence

from walrelay.model import Finding
from walrelay.publish.contract import Sink, SinkPlugin, SinkTraits
from walrelay.sinks.address import AddressTemplate, place_by
from walrelay.sinks.aws.sqs.settings import SqsSettings
from walrelay.sinks.clients import client_library
from walrelay.sinks.hosting import RefusalMemory


def _open(settings: SqsSettings, memory: RefusalMemory) -> Sink:
    with client_library("AWS", "aws"):
        from walrelay.sinks.aws.hosted import hosted
        from walrelay.sinks.aws.sqs.api import SqsApi
    return hosted(SqsApi(settings), settings, memory, ordered=settings.ordering == "per_key")


def _examine(settings: SqsSettings, topics: Sequence[str]) -> Iterable[Finding]:
    with client_library("AWS", "aws"):
        from walrelay.sinks.aws.sqs.doctor import examine
    return examine(settings, topics)


def _make_topics(
    settings: SqsSettings, topics: Sequence[str], partitions: int, replication_factor: int | None
) -> Iterator[tuple[str, bool]]:
    with client_library("AWS", "aws"):
        from walrelay.sinks.aws.sqs.doctor import make_queues
    return make_queues(settings, topics)


plugin = SinkPlugin(
    SqsSettings,
    open=_open,
    examine=_examine,
    memory=RefusalMemory,
    topic_fault=lambda name: "" if name else "a queue has a name",
    place=lambda settings: place_by(AddressTemplate(settings.queue)),
    make_topics=_make_topics,
    traits=SinkTraits(
        durable="taken by the queue (`Successful`)",
        order="of each topic and key, in FIFO queues; none in standard queues, with ordering: none",
        repeats="dropped by a FIFO queue for 5 minutes; recognised by the attribute id",
        headers="10 with the key; names of letters, digits, _, - and .; none empty; any number with format: document",
        size="1 MiB, headers included",
        client="boto3",
        extra="aws",
    ),
)
