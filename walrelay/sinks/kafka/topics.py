"""Topics at the broker: findings about them, and making them as the sink's own principal."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AclOperation, NewTopic

from walrelay.errors import Fatal, SinkError
from walrelay.model import Finding
from walrelay.sinks.kafka.cluster import Cluster, Commands, Topic, Unreachable, commands
from walrelay.sinks.kafka.errors import COLLIDING
from walrelay.sinks.kafka.settings import KafkaSettings

Limits: TypeAlias = Mapping[str, str]


def topic_findings(topic: Topic, largest: int, tools: Commands) -> Iterator[Finding]:
    """What is wrong with the topic; `largest` is the sink's message.max.bytes. Pure."""
    yield from _rights(topic, tools)
    yield from _availability(topic, tools)
    if topic.limits is None:
        yield Finding(
            f"topic {topic.name}",
            "warning",
            "max.message.bytes and min.insync.replicas cannot be seen by walrelay's principal",
            tools.allow("DescribeConfigs", on=f"--topic {topic.name}"),
        )
        return
    yield from _size(topic, topic.limits, largest, tools)
    yield from _durability(topic, topic.limits, tools)
    yield from _retention(topic, topic.limits, tools)


def _rights(topic: Topic, tools: Commands) -> Iterator[Finding]:
    if topic.may is not None and AclOperation.WRITE not in topic.may:
        yield not_allowed(topic.name, tools)


def not_allowed(name: str, tools: Commands) -> Finding:
    fix = tools.allow("Write", "Describe", on=f"--topic {name}")
    return Finding(f"topic {name}", "problem", "walrelay's principal may not write it", fix)


def _availability(topic: Topic, tools: Commands) -> Iterator[Finding]:
    if dead := [partition.id for partition in topic.partitions if partition.leader is None]:
        detail = f"partitions without a leader: {_listed(dead)}; they take no message"
        yield Finding(f"topic {topic.name}", "problem", detail, tools.describe(topic.name))


def _size(topic: Topic, limits: Limits, largest: int, tools: Commands) -> Iterator[Finding]:
    allowed = int(limits.get("max.message.bytes", largest))
    if allowed < largest:
        yield Finding(
            f"topic {topic.name}",
            "warning",
            f"accepts messages of {allowed} bytes, the sink sends up to {largest}: one in between stops the relay",
            tools.configure_topic(topic.name, f"max.message.bytes={largest}"),
        )


def _durability(topic: Topic, limits: Limits, tools: Commands) -> Iterator[Finding]:
    """acks=all waits for the replicas that are in sync, and that may be a single one."""
    subject = f"topic {topic.name}"
    needed = int(limits.get("min.insync.replicas", "1"))
    count = replicas(topic)
    if count < needed:
        fix = tools.configure_topic(topic.name, f"min.insync.replicas={count}")
        yield Finding(subject, "problem", _too_few(needed, count), fix)
    elif behind := [each.id for each in topic.partitions if each.leader is not None and len(each.in_sync) < needed]:
        detail = (
            f"fewer than min.insync.replicas={needed} in sync in partitions {_listed(behind)}: no message is taken now"
        )
        yield Finding(subject, "problem", detail, tools.describe(topic.name))
    elif needed < 2 <= count:
        fix = tools.configure_topic(topic.name, "min.insync.replicas=2")
        yield Finding(subject, "warning", "min.insync.replicas is 1: acks=all may mean a single broker", fix)
    if limits.get("unclean.leader.election.enable") == "true":
        detail = "an unclean leader election may throw acknowledged events away"
        fix = tools.configure_topic(topic.name, "unclean.leader.election.enable=false")
        yield Finding(subject, "warning", detail, fix)


def _too_few(needed: int, replicas: int) -> str:
    there = "there is only 1 replica" if replicas == 1 else f"there are only {replicas} replicas"
    return f"min.insync.replicas is {needed}, but {there}: no message is ever taken"


def single_replicas(topics: Sequence[Topic], brokers: list[int], tools: Commands) -> Iterator[Finding]:
    """One finding for all topics with a single replica; none in a cluster of one broker."""
    single = [topic for topic in topics if topic.partitions and replicas(topic) < 2]
    if not single or len(brokers) < 2:
        return
    shown = ", ".join(topic.name for topic in single[:5]) + (f" and {len(single) - 5} more" if len(single) > 5 else "")
    detail = f"one replica only of {shown}: an acknowledged event is lost with that broker's disk"
    partitions = {topic.name: topic.partitions for topic in single}
    yield Finding("replicas", "warning", detail, tools.replicate(partitions, brokers))


def replicas(topic: Topic) -> int:
    """The least number of replicas of any partition."""
    return min((len(partition.replicas) for partition in topic.partitions), default=0)


def _retention(topic: Topic, limits: Limits, tools: Commands) -> Iterator[Finding]:
    if limits.get("cleanup.policy") == "compact":
        detail = "is compacted: it forgets all but a key's last event, and refuses events without a key"
        fix = tools.configure_topic(topic.name, "cleanup.policy=delete")
        yield Finding(f"topic {topic.name}", "warning", detail, fix)


def all_is_well(topic: Topic, largest: int) -> Finding:
    """The finding about a topic that nothing is wrong with."""
    partitions, copies = len(topic.partitions), replicas(topic)
    detail = f"{partitions} partition{'s' * (partitions != 1)}, {copies} replica{'s' * (copies != 1)}"
    return Finding(f"topic {topic.name}", "ok", f"{detail}, messages of up to {largest} bytes")


def _listed(numbers: list[int]) -> str:
    shown = ", ".join(map(str, numbers[:10]))
    return shown if len(numbers) <= 10 else f"{shown} and {len(numbers) - 10} more"


_AS_THE_BROKER_HAS_IT = -1
_DENIED = {KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED}
_HINTS = {
    KafkaError.TOPIC_EXCEPTION: "Topic names have letters, digits, '.', '_' and '-' and at most 249 of them.",
    KafkaError.INVALID_REPLICATION_FACTOR: "A topic has at most as many replicas as there are brokers:"
    " --replication-factor.",
    KafkaError.POLICY_VIOLATION: "A policy of the broker forbids it; the broker's log says which.",
}


def make_topics(
    settings: KafkaSettings, topics: Sequence[str], partitions: int, replication_factor: int | None
) -> Iterator[tuple[str, bool]]:
    """Yields each topic and whether it was made now; one that exists stays as it is. Fatal, with a hint, for the first
    that cannot be made.
    """
    try:
        cluster = Cluster(settings)
    except (KafkaException, ValueError, TypeError) as cause:
        raise SinkError(f"librdkafka refuses sink.options: {cause}", hint="walrelay config check") from cause
    try:
        cluster.reach()
    except Unreachable as cause:
        raise SinkError(
            f"no topic was made: Kafka cannot be reached at {settings.bootstrap_servers}: {cause}",
            hint="walrelay doctor has the fix. Then run this again: what is there already stays as it is.",
        ) from cause
    factor = _AS_THE_BROKER_HAS_IT if replication_factor is None else replication_factor
    wanted = [NewTopic(name, num_partitions=partitions, replication_factor=factor) for name in topics]
    for name, error in cluster.make(wanted):
        if error is None or error.code() == KafkaError.TOPIC_ALREADY_EXISTS:
            yield name, error is None
        else:
            raise _refused(name, error, commands(settings))


def _refused(name: str, error: KafkaError, tools: Commands) -> Fatal:
    hint = _HINTS.get(error.code(), "walrelay doctor asks the broker for everything that it must allow.")
    if error.code() == KafkaError.TOPIC_EXCEPTION and "collides" in error.str():
        hint = COLLIDING
    if error.code() in _DENIED:
        hint = tools.allow("Create", on=f"--topic {name}")
    return SinkError(f"topic {name} could not be made: {error.str()}", hint=hint)
