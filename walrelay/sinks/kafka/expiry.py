"""Topics that delete a message by the time that the message itself has, and how long after that."""

import re
from collections.abc import Iterator, Mapping, Sequence

from confluent_kafka import KafkaException

from walrelay.errors import Retryable
from walrelay.publish.contract import Expiry
from walrelay.sinks.kafka.cluster import Cluster, Commands, Topic, Unreachable, commands
from walrelay.sinks.kafka.settings import KafkaSettings


def expiry(settings: KafkaSettings, topics: Sequence[str]) -> Mapping[str, Expiry]:
    """See `SinkPlugin.expiry`."""
    try:
        cluster = Cluster(settings)
        _, there = cluster.reach()
    except (KafkaException, ValueError, TypeError):
        return {}  # options that librdkafka refuses: the sink says that
    except Unreachable as cause:
        raise Retryable(f"Kafka cannot be asked how long topics keep messages: {cause}") from cause
    names = [*dict.fromkeys(name for topic in topics for name in _named(topic, there))]
    described, _ = cluster.topics(names) if names else ([], {})
    tools = commands(settings)
    return {topic.name: found for topic in described if (found := _of_topic(topic, tools)) is not None}


def _named(topic: str, there: Sequence[str]) -> Iterator[str]:
    if "*" not in topic:
        yield topic
        return
    shape = re.compile(".+".join(map(re.escape, topic.split("*"))))
    yield from (name for name in there if shape.fullmatch(name))


def _of_topic(topic: Topic, tools: Commands) -> Expiry | None:
    """None where the topic keeps messages however old they are, or does not say."""
    limits = topic.limits or {}
    kept_ms = int(limits.get("retention.ms", "-1"))
    by_own_time = limits.get("message.timestamp.type") == "CreateTime" and "delete" in limits.get("cleanup.policy", "")
    if kept_ms < 0 or not by_own_time:
        return None
    return Expiry(kept_ms / 1000, tools.configure_topic(topic.name, "message.timestamp.type=LogAppendTime"))
