"""The RabbitMQ sink's entry point; imports the client library only when a sink is opened."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from walrelay.model import Finding
from walrelay.publish.contract import Sink, SinkPlugin, SinkTraits
from walrelay.sinks.address import AddressTemplate, hosts, place_by
from walrelay.sinks.clients import client_library
from walrelay.sinks.hosting import HostedSink, RefusalMemory
from walrelay.sinks.hosting.sink import lane_of_key
from walrelay.sinks.rabbitmq.settings import RabbitmqSettings, addresses


def _open(settings: RabbitmqSettings, memory: RefusalMemory) -> Sink:
    with client_library("RabbitMQ", "rabbitmq"):
        from walrelay.sinks.rabbitmq.connection import RabbitmqConnection
    return HostedSink(
        partial(RabbitmqConnection, settings),
        settings.window,
        memory,
        "RabbitMQ",
        address=hosts(addresses(settings.url)),
        lane_of=lane_of_key if settings.ordering == "per_key" else None,
    )


def _examine(settings: RabbitmqSettings, topics: Sequence[str]) -> Iterable[Finding]:
    with client_library("RabbitMQ", "rabbitmq"):
        from walrelay.sinks.rabbitmq.topology import examine
    return examine(settings, topics)


def _make_topics(
    settings: RabbitmqSettings, topics: Sequence[str], partitions: int, replication_factor: int | None
) -> Iterator[tuple[str, bool]]:
    with client_library("RabbitMQ", "rabbitmq"):
        from walrelay.sinks.rabbitmq.topology import declare
    return declare(settings, topics, replication_factor)


def topic_fault(name: str) -> str:
    """A topic becomes a routing key, which may be any text of that length."""
    return "" if 0 < len(name.encode(errors="surrogateescape")) <= 255 else "a routing key has 1 to 255 bytes"


plugin = SinkPlugin(
    RabbitmqSettings,
    open=_open,
    examine=_examine,
    memory=RefusalMemory,
    topic_fault=topic_fault,
    place=lambda settings: place_by(AddressTemplate(settings.exchange), AddressTemplate(settings.routing_key)),
    make_topics=_make_topics,
    made_as=lambda settings: "exchange" if settings.exchange else "queue",
    traits=SinkTraits(
        durable="confirmed, and in every queue that it was routed to",
        order="of each topic and key",
        repeats="recognised by message_id",
        headers="any bytes, null; no repeated names, no CC and BCC; 128 KiB together",
        size="max_message_size of the server, 16 MiB by default since 4.0, 128 MiB before",
        client="pika",
        extra="rabbitmq",
    ),
)
