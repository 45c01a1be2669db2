"""The doctor's questions about Kafka: reachable, authorised, and topics that take what the outbox holds."""

import re
from collections.abc import Iterator, Mapping, Sequence

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AclOperation, ResourceType

from walrelay.model import Finding
from walrelay.sinks.kafka.cluster import Cluster, Commands, Topic, Unreachable, commands
from walrelay.sinks.kafka.errors import colliding, text_of
from walrelay.sinks.kafka.settings import KafkaSettings
from walrelay.sinks.kafka.topics import all_is_well, not_allowed, replicas, single_replicas, topic_findings

_DEFAULT_LARGEST = 1_000_000  # librdkafka's message.max.bytes


def examine(settings: KafkaSettings, topics: Sequence[str]) -> Iterator[Finding]:
    """Every finding about cluster and topics. Never raises for what it finds; a `*` in a topic stands for any text."""
    try:
        cluster = Cluster(settings)
    except (KafkaException, ValueError, TypeError) as cause:
        yield _bad_options(cause)
        return
    tools = commands(settings)
    try:
        brokers, names = cluster.reach()
    except Unreachable as cause:
        yield _unreachable(settings, cause, tools)
        return
    silent = cluster.silent(brokers)
    yield from _brokers(brokers, silent)
    if len(silent) == len(brokers):
        return  # no broker is left to ask
    blocked = False
    for pattern in topics:
        for finding in _Topics(settings, cluster, sorted(brokers), tools).findings(pattern, names):
            yield finding
            blocked |= finding.verdict == "problem"
    if not blocked:  # else it might fail for the same reason
        yield _producer(cluster, tools)


def examine_positions(settings: KafkaSettings) -> Iterator[Finding]:
    """The doctor's question about the topic that holds positions: one that forgets them would be worse than none. One
    finding, or none where the cluster cannot be asked: another finding says so.
    """
    try:
        cluster = Cluster(settings)
        brokers, _ = cluster.reach()
    except (KafkaException, ValueError, TypeError, Unreachable):
        return
    name, tools = settings.positions_topic, commands(settings)
    described, refused = cluster.topics([name])
    if described:
        yield positions_finding(described[0], len(brokers), tools)
    elif refused[name].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
        yield Finding(f"topic {name}", "ok", "does not exist; the relay will create it as a compacted topic")
    else:
        fix = tools.allow("Read", "Write", "Describe", on=f"--topic {name}")
        yield Finding(f"topic {name}", "problem", f"cannot be seen: {refused[name].str()}", fix)


def positions_finding(topic: Topic, brokers: int, tools: Commands) -> Finding:
    """About the topic that holds positions, in a cluster of so many brokers."""
    subject, policy = f"topic {topic.name}", (topic.limits or {}).get("cleanup.policy", "compact")
    copies = replicas(topic)
    if policy != "compact":
        fix = tools.configure_topic(topic.name, "cleanup.policy=compact")
        return Finding(subject, "problem", f"has cleanup.policy={policy}: it would forget positions", fix)
    if copies < 2 <= brokers:
        detail = "one replica only: if that broker's disk fails, the position is lost, and events are repeated"
        return Finding(subject, "warning", detail, tools.create_positions_topic(topic.name, 3))
    return Finding(subject, "ok", f"holds positions, {copies} replica{'' if copies == 1 else 's'}")


def _bad_options(cause: Exception) -> Finding:
    return Finding("Kafka", "problem", f"librdkafka refuses sink.options: {text_of(cause)}", "walrelay config check")


def _unreachable(settings: KafkaSettings, cause: Unreachable, tools: Commands) -> Finding:
    where = f"at {settings.bootstrap_servers}: {cause}"
    match cause.code:
        case KafkaError._AUTHENTICATION:
            fix = "sink.options: {sasl.mechanism: ..., sasl.username: ..., sasl.password: ...}   # in the settings"
            return Finding("Kafka", "problem", f"does not let walrelay in {where}", fix)
        case KafkaError._SSL:
            fix = f"openssl s_client -connect {settings.bootstrap_servers.split(',')[0]}   # then sink.options: ssl.*"
            return Finding("Kafka", "problem", f"no TLS connection {where}", fix)
        case KafkaError._ALL_BROKERS_DOWN:  # connections were taken and closed at once, without a word
            fix = "sink.options: {security.protocol: SASL_SSL}   # in the settings, or as the listener has it"
            return Finding("Kafka", "problem", f"closes every connection {where}", fix)
    return Finding("Kafka", "problem", f"cannot be reached {where}", tools.greet())


def _brokers(brokers: Mapping[int, str], silent: Sequence[int]) -> Iterator[Finding]:
    """Clients talk to a broker at the address that it advertises, which they may not be able to reach."""
    for broker in silent:
        yield Finding(
            "Kafka",
            "problem",
            f"broker {broker} cannot be reached at {brokers[broker]}, the address that it advertises",
            f"advertised.listeners=PLAINTEXT://{brokers[broker]}   # in its server.properties: one that clients reach",
        )
    if not silent:
        listed = ", ".join(brokers[broker] for broker in sorted(brokers))
        yield Finding("Kafka", "ok", f"{len(brokers)} broker{'' if len(brokers) == 1 else 's'}: {listed}")


def _producer(cluster: Cluster, tools: Commands) -> Finding:
    error = cluster.producer_refused()
    if error is None:
        return Finding("producer", "ok", "idempotent, acks=all")
    denied = KafkaError.CLUSTER_AUTHORIZATION_FAILED
    if error.code() == denied or "authorization" in error.str().lower():
        detail = "walrelay's principal may not write idempotently"
        return Finding("producer", "problem", detail, tools.allow("IdempotentWrite", on="--cluster"))
    return Finding("producer", "problem", f"gets no producer id: {error.str()}", tools.greet())


def _there(existing: int) -> str:
    return {0: "none exists", 1: "1 exists"}.get(existing, f"{existing} exist")


class _Topics:
    """The questions about topics, for one cluster."""

    def __init__(self, settings: KafkaSettings, cluster: Cluster, brokers: list[int], tools: Commands) -> None:
        self._cluster, self._brokers, self._tools = cluster, brokers, tools
        self._create = settings.create_topics
        self._largest = int(settings.client_options().get("message.max.bytes", _DEFAULT_LARGEST))

    def findings(self, pattern: str, names: Sequence[str]) -> Iterator[Finding]:
        if "*" not in pattern:
            yield from self._named([pattern], names)
            return
        shape = re.compile(".+".join(map(re.escape, pattern.split("*"))))
        existing = sorted(name for name in names if shape.fullmatch(name))
        yield from self._named(existing, names)
        yield self._others(pattern, len(existing))

    def _named(self, names: list[str], there: Sequence[str]) -> Iterator[Finding]:
        described, refused = self._cluster.topics(names) if names else ([], {})
        for topic in described:
            wrong = list(topic_findings(topic, self._largest, self._tools))
            yield from wrong or [all_is_well(topic, self._largest)]
        yield from single_replicas(described, self._brokers, self._tools)
        for name, error in refused.items():
            if error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                yield self._missing(name, there)
            elif error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                yield not_allowed(name, self._tools)
            else:
                yield Finding(f"topic {name}", "problem", error.str(), self._tools.describe(name))

    def _missing(self, name: str, there: Sequence[str]) -> Finding:
        if twin := colliding(name, there):
            fix = "route.topic: ANOTHER.NAME   # in the settings"
            return Finding(f"topic {name}", "problem", f"does not exist, and Kafka makes none beside {twin}", fix)
        if not self._create:
            return Finding(f"topic {name}", "problem", "does not exist", self._creating(name))
        return self._creatable(f"topic {name}", name, "does not exist, and is made with the first event")

    def _others(self, pattern: str, existing: int) -> Finding:
        subject = f"topics {pattern}"
        name = pattern.replace("*", "NAME")
        if self._create:
            return self._creatable(subject, name, f"{_there(existing)}; others are made with their first event")
        if existing:
            return Finding(subject, "ok", f"{_there(existing)}; any other must be made before its first event")
        detail = "none exists; each must be made before its first event, which stops the relay otherwise"
        return Finding(subject, "warning", detail, self._creating(name))

    def _creatable(self, subject: str, name: str, detail: str) -> Finding:
        """Whether the broker makes topics, for walrelay's principal, that keep an event when a broker is lost."""
        limits = self._cluster.limits(ResourceType.BROKER, str(self._brokers[0]))
        may = self._cluster.may()
        if limits is not None and limits.get("auto.create.topics.enable") != "true":
            lacking = detail.partition(";")[0] if "*" in subject else "does not exist"
            detail = f"{lacking}, and the brokers make none (auto.create.topics.enable is false)"
            return Finding(subject, "problem" if "*" not in subject else "warning", detail, self._creating(name))
        if may is not None and AclOperation.CREATE not in may:
            prefix = name.partition("NAME")[0]
            fix = self._tools.allow("Create", on=f"--topic '{prefix}' --resource-pattern-type prefixed")
            return Finding(subject, "warning", "whether walrelay's principal may make topics cannot be seen", fix)
        if limits is not None and int(limits.get("default.replication.factor", "2")) < 2:
            if len(self._brokers) < 2:
                return Finding(subject, "ok", f"{detail}, with one replica only, as there is one broker")
            fix = f"{self._creating(name)}   # or default.replication.factor=3 in server.properties"
            return Finding(subject, "warning", f"{detail}, with one replica only", fix)
        return Finding(subject, "ok", detail)

    def _creating(self, name: str) -> str:
        return self._tools.create_topic(name, min(3, len(self._brokers)))
