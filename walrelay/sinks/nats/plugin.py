"""The NATS sink's entry point; imports the client library only when a sink is opened."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from walrelay.model import Finding
from walrelay.publish.contract import Sink, SinkPlugin, SinkTraits
from walrelay.sinks.clients import client_library
from walrelay.sinks.hosting import HostedSink, RefusalMemory
from walrelay.sinks.hosting.sink import lane_of_key
from walrelay.sinks.nats.settings import NatsSettings
from walrelay.sinks.nats.subjects import subject_fault


def _open(settings: NatsSettings, memory: RefusalMemory) -> Sink:
    with client_library("NATS", "nats"):
        from walrelay.sinks.nats.connection import NatsConnection
    return HostedSink(
        partial(NatsConnection, settings),
        settings.window,
        memory,
        "NATS",
        lane_of=lane_of_key if settings.ordering == "per_key" else None,
    )


def _examine(settings: NatsSettings, topics: Sequence[str]) -> Iterable[Finding]:
    with client_library("NATS", "nats"):
        from walrelay.sinks.nats.streams import examine
    return examine(settings, topics)


def _make_topics(
    settings: NatsSettings, topics: Sequence[str], partitions: int, replication_factor: int | None
) -> Iterator[tuple[str, bool]]:
    with client_library("NATS", "nats"):
        from walrelay.sinks.nats.streams import add_subjects
    return add_subjects(settings, topics, replication_factor)


plugin = SinkPlugin(
    NatsSettings,
    open=_open,
    examine=_examine,
    memory=RefusalMemory,
    topic_fault=subject_fault,
    make_topics=_make_topics,
    traits=SinkTraits(
        durable="acknowledged by the stream, a majority of its replicas",
        order="of each topic and key; of commits where ordering is chained",
        repeats="dropped by the stream within its duplicate_window; recognised by the header id",
        headers="UTF-8, names of ASCII; no null, no repeated names, no Nats-*; 64 KiB together",
        size="max_payload of the server, 1 MiB by default, headers included",
        client="nats",
        extra="nats",
    ),
)
