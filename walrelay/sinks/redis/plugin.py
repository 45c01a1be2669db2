"""The Redis sink's entry point; imports the client library only when a sink is opened."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from walrelay.model import Counting, Finding, System
from walrelay.publish.contract import ExactlyOnce, ExactlyOnceSink, PositionKeeper, Sink, SinkPlugin, SinkTraits
from walrelay.sinks.address import AddressTemplate, place_by
from walrelay.sinks.clients import client_library
from walrelay.sinks.group_contract import GroupMemory
from walrelay.sinks.group_positions import GroupPositionKeeper
from walrelay.sinks.groups import GroupedSink
from walrelay.sinks.hosting import HostedSink, RefusalMemory
from walrelay.sinks.redis.settings import RedisSettings


def _open(settings: RedisSettings, memory: RefusalMemory) -> Sink:
    with client_library("Redis", "redis"):
        from walrelay.sinks.redis.cluster_connection import ClusterConnection
        from walrelay.sinks.redis.connection import RedisConnection
    connection = ClusterConnection if settings.cluster else RedisConnection
    connect = partial(connection, settings)
    return HostedSink(connect, settings.window, memory, "Redis", address=settings.shown, lane_of=None)


def _open_exactly_once(
    settings: RedisSettings, memory: GroupMemory, system: System, slot: str, counting: Counting | None = None
) -> ExactlyOnceSink:
    with client_library("Redis", "redis"):
        from walrelay.sinks.redis.exactly_once import RedisGroups, RedisGroupSize
    size = RedisGroupSize(settings, memory)
    return GroupedSink(RedisGroups(settings, memory, system, slot), size, system, slot, counting)


def _open_positions(settings: RedisSettings, system: System, slot: str) -> PositionKeeper:
    with client_library("Redis", "redis"):
        from walrelay.sinks.redis.exactly_once import RedisGroups
    return GroupPositionKeeper(RedisGroups(settings, GroupMemory(), system, slot))


def _examine_positions(settings: RedisSettings) -> Iterable[Finding]:
    with client_library("Redis", "redis"):
        from walrelay.sinks.redis.examine import examine_positions
    return examine_positions(settings)


def _examine(settings: RedisSettings, topics: Sequence[str]) -> Iterable[Finding]:
    with client_library("Redis", "redis"):
        from walrelay.sinks.redis.examine import examine
    return examine(settings, topics)


def _make_topics(
    settings: RedisSettings, topics: Sequence[str], partitions: int, replication_factor: int | None
) -> Iterator[tuple[str, bool]]:
    with client_library("Redis", "redis"):
        from walrelay.sinks.redis.examine import make_streams
    return make_streams(settings, topics)


def topic_fault(name: str) -> str:
    """A topic becomes the name of a key, which may be any text."""
    return "" if name else "a stream has a name"


plugin = SinkPlugin(
    RedisSettings,
    open=_open,
    examine=_examine,
    memory=GroupMemory,
    topic_fault=topic_fault,
    place=lambda settings: place_by(AddressTemplate(settings.stream)),
    exactly_once=ExactlyOnce(_open_exactly_once, _open_positions, _examine_positions),
    make_topics=_make_topics,
    made_as=lambda settings: "stream",
    traits=SinkTraits(
        durable="answered by Redis, and by `wait_replicas` replicas; on disk with `wait_aof`, or as the server does",
        order="of commits, in each stream and between streams; in a Redis Cluster in each stream",
        repeats="recognised by the field id; exactly_once has none",
        headers="any bytes, repeated names; no null, none named as the fields of key and value",
        size="proto-max-bulk-len of the server, 512 MiB by default",
        client="redis",
        extra="redis",
    ),
)
