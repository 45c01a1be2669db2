"""The PostgreSQL sink's entry point. Its client is the library that walrelay reads PostgreSQL with."""

from collections.abc import Iterator, Sequence
from functools import partial

from walrelay.model import Counting, System
from walrelay.publish.contract import ExactlyOnce, ExactlyOnceSink, Sink, SinkPlugin, SinkTraits
from walrelay.sinks.address import AddressTemplate, place_by
from walrelay.sinks.groups import GroupedSink
from walrelay.sinks.hosting import HostedSink
from walrelay.sinks.postgres.connection import PostgresConnection
from walrelay.sinks.postgres.groups import PostgresGroups, TargetGroupSize
from walrelay.sinks.postgres.position_keeper import PostgresPositionKeeper
from walrelay.sinks.postgres.settings import PostgresSettings
from walrelay.sinks.postgres.tables import examine, examine_positions, make_tables
from walrelay.sinks.postgres.writer import TargetMemory


def _open(settings: PostgresSettings, memory: TargetMemory) -> Sink:
    connect = partial(PostgresConnection, settings, memory)
    return HostedSink(connect, settings.window, memory, "the database of the sink", lane_of=None)


def _open_exactly_once(
    settings: PostgresSettings, memory: TargetMemory, system: System, slot: str, counting: Counting | None = None
) -> ExactlyOnceSink:
    size = TargetGroupSize(settings, memory)
    return GroupedSink(PostgresGroups(settings, memory, system, slot), size, system, slot, counting)


def _make_topics(
    settings: PostgresSettings, topics: Sequence[str], partitions: int, replication_factor: int | None
) -> Iterator[tuple[str, bool]]:
    return make_tables(settings, topics)


def topic_fault(name: str) -> str:
    """A topic is a text, and perhaps a part of a table's name."""
    return "a topic is not empty and has no zero byte" if not name or "\0" in name else ""


plugin = SinkPlugin(
    PostgresSettings,
    open=_open,
    examine=examine,
    memory=TargetMemory,
    topic_fault=topic_fault,
    place=lambda settings: place_by(AddressTemplate(settings.table)),
    exactly_once=ExactlyOnce(_open_exactly_once, PostgresPositionKeeper, examine_positions),
    make_topics=_make_topics,
    made_as=lambda settings: "table",
    traits=SinkTraits(
        durable="committed there",
        order="of commits, in each table",
        repeats="none with exactly_once; recognised by the column id",
        headers="UTF-8 without zero bytes, null; no repeated names",
        size="1 GB a column",
    ),
)
