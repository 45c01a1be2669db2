"""The doctor's question about the topic that holds positions: one that forgets them would be worse than none."""

from collections.abc import Iterator

from confluent_kafka import KafkaError, KafkaException

from walrelay.model import Finding
from walrelay.sinks.kafka.cluster import Cluster, Topic, Unreachable
from walrelay.sinks.kafka.commands import Commands, commands
from walrelay.sinks.kafka.settings import KafkaSettings


def examine_positions(settings: KafkaSettings) -> Iterator[Finding]:
    """One finding, or none where the cluster cannot be asked: that is another finding's business."""
    try:
        cluster = Cluster(settings)
        brokers, _ = cluster.reach()
    except (KafkaException, ValueError, TypeError, Unreachable):
        return
    name, tools = settings.positions_topic, commands(settings)
    described, refused = cluster.topics([name])
    if described:
        yield judged(described[0], len(brokers), tools)
    elif refused[name].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
        yield Finding(f"topic {name}", "ok", "is not there; the relay makes it, compacted")
    else:
        fix = tools.allow("Read", "Write", "Describe", on=f"--topic {name}")
        yield Finding(f"topic {name}", "problem", f"cannot be seen: {refused[name].str()}", fix)


def judged(topic: Topic, brokers: int, tools: Commands) -> Finding:
    """What is to be said of the topic, in a cluster of so many brokers."""
    subject, policy = f"topic {topic.name}", (topic.limits or {}).get("cleanup.policy", "compact")
    replicas = min((len(partition.replicas) for partition in topic.partitions), default=0)
    if policy != "compact":
        fix = tools.configure_topic(topic.name, "cleanup.policy=compact")
        return Finding(subject, "problem", f"has cleanup.policy={policy}: it would forget positions", fix)
    if replicas < 2 <= brokers:
        detail = "one replica only: with that broker's disk the position is lost, and events are repeated"
        return Finding(subject, "warning", detail, tools.create_positions_topic(topic.name, 3))
    return Finding(subject, "ok", f"holds positions, {replicas} replica{'' if replicas == 1 else 's'}")
