"""The NATS sink's entry point; imports the client library only when a sink is opened."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from walrelay.errors import SinkError
from walrelay.model import Counting, Finding, System
from walrelay.publish.contract import (
    ExactlyOnce,
    ExactlyOnceSink,
    Found,
    PositionKeeper,
    Sink,
    SinkPlugin,
    SinkTraits,
    Span,
)
from walrelay.sinks.address import AddressTemplate, hosts, place_by
from walrelay.sinks.clients import client_library
from walrelay.sinks.group_contract import GroupSize
from walrelay.sinks.group_positions import GroupPositionKeeper
from walrelay.sinks.groups import GroupedSink
from walrelay.sinks.hosting import HostedSink, PreparedMessages, RefusalMemory
from walrelay.sinks.hosting.sink import lane_of_key
from walrelay.sinks.nats.settings import NatsSettings, addresses
from walrelay.sinks.nats.subjects import subject_fault

_NO_STREAM = "delivery: exactly_once needs the name of a stream that nobody else writes to"
_SET_STREAM = "Set sink.stream."


@dataclass
class NatsMemory(RefusalMemory):
    """Memory of the sinks of one relay about their stream."""

    acknowledged: dict[int, bytes] = field(default_factory=dict)  # see `NatsGroups`


def _open(settings: NatsSettings, memory: RefusalMemory) -> Sink:
    with client_library("NATS", "nats"):
        from walrelay.sinks.nats.connection import NatsConnection, Prepared
        from walrelay.sinks.nats.messages import MessageIds
    return HostedSink(
        partial(NatsConnection, settings, prepared=PreparedMessages[Prepared](), message_id=MessageIds()),
        settings.window,
        memory,
        "NATS",
        address=hosts(addresses(settings.url)),
        lane_of=lane_of_key if settings.ordering == "per_key" else None,
    )


def _open_exactly_once(
    settings: NatsSettings, memory: NatsMemory, system: System, slot: str, counting: Counting | None = None
) -> ExactlyOnceSink:
    with client_library("NATS", "nats"):
        from walrelay.sinks.nats.groups import NatsGroups
    if settings.stream is None:
        raise SinkError(_NO_STREAM, hint=_SET_STREAM)
    size = GroupSize(settings.max_in_flight, settings.max_in_flight_bytes // 2)
    return GroupedSink(NatsGroups(settings, system, slot, memory.acknowledged), size, system, slot, counting)


def _open_positions(settings: NatsSettings, system: System, slot: str) -> PositionKeeper:
    with client_library("NATS", "nats"):
        from walrelay.sinks.nats.groups import NatsGroups
    return GroupPositionKeeper(NatsGroups(settings, system, slot, publishes=False))


def _examine_positions(settings: NatsSettings) -> Iterator[Finding]:
    if settings.stream is None:
        yield Finding("positions", "problem", _NO_STREAM, _SET_STREAM)
    else:
        yield Finding("positions", "ok", f"positions are kept in the stream {settings.positions_stream!r}")


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


def _read_back(settings: NatsSettings, topics: Sequence[str], since_ms: int) -> Iterator[Found | Span]:
    with client_library("NATS", "nats"):
        from walrelay.sinks.nats.read_back import read_back
    return read_back(settings, topics, since_ms)


plugin = SinkPlugin(
    NatsSettings,
    open=_open,
    examine=_examine,
    memory=NatsMemory,
    topic_fault=subject_fault,
    place=lambda settings: place_by(AddressTemplate(settings.subject)),
    exactly_once=ExactlyOnce(_open_exactly_once, _open_positions, _examine_positions),
    read_back=_read_back,
    make_topics=_make_topics,
    made_as=lambda settings: "subject",
    traits=SinkTraits(
        durable="acknowledged by the stream, a majority of its replicas",
        order="of each topic and key; of commits where ordering is chained",
        repeats="dropped by the stream within its duplicate_window; recognised by the header id; exactly_once has none",
        headers="UTF-8, names of ASCII; no null, no repeated names, no Nats-*; 64 KiB together",
        size="max_payload of the server, 1 MiB by default, headers included",
        client="nats",
        extra="nats",
    ),
)
