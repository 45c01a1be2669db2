"""Topics made on request, by the sink's own principal."""

from collections.abc import Iterator, Sequence

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import NewTopic

from walrelay.errors import Fatal
from walrelay.sinks.kafka.cluster import Cluster, Unreachable
from walrelay.sinks.kafka.commands import Commands, commands
from walrelay.sinks.kafka.settings import KafkaSettings

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
    """Each topic, and whether it was made now or was there before, which changes nothing about it. Fatal, with a hint,
    for the first that cannot be made.
    """
    try:
        cluster = Cluster(settings)
    except (KafkaException, ValueError, TypeError) as cause:
        raise Fatal(f"librdkafka refuses sink.options: {cause}", hint="walrelay config check") from cause
    try:
        cluster.reach()
    except Unreachable as cause:
        raise Fatal(
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
    if error.code() in _DENIED:
        hint = tools.allow("Create", on=f"--topic {name}")
    return Fatal(f"topic {name} could not be made: {error.str()}", hint=hint)
