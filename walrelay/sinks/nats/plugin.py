"""The NATS sink's entry point; imports the client library only when a sink is opened."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from walrelay.model import Finding
from walrelay.publish.contract import Sink, SinkPlugin
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
)
