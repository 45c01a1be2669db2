"""A Kafka cluster as the sink's principal sees it, and Kafka's own command-line tools as text to paste."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from time import monotonic
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Producer, TopicCollection
from confluent_kafka.admin import AclOperation, AdminClient, ConfigResource, NewTopic, ResourceType

from walrelay.sinks.kafka.errors import error_of
from walrelay.sinks.kafka.settings import KafkaSettings

PATIENCE = 10.0  # seconds for the first answer
_GIVE_UP = 1.0  # seconds, when every broker is known to be down
_MUTE = 3.0  # seconds, when the client library does not say more than that yet
_REQUEST = 5.0  # seconds for an answer of a broker that was reached
_QUIET: dict[str, Any] = {"log_level": 0, "allow.auto.create.topics": False}


class Partition(NamedTuple):
    """Brokers by id. `leader` None: no broker takes writes."""

    id: int
    leader: int | None
    replicas: list[int]
    in_sync: list[int]


class Topic(NamedTuple):
    """`may` (allowed operations) and `limits` (settings) are None where the broker does not show them."""

    name: str
    partitions: list[Partition]
    may: frozenset[AclOperation] | None
    limits: Mapping[str, str] | None


class Unreachable(Exception):
    """No broker answered; `code` is that of the client library's most specific complaint."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class Cluster:
    """One client for all questions. KafkaException, ValueError or TypeError for options that librdkafka refuses."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._options = {name: value for name, value in settings.client_options().items() if name != "debug"}
        self._complaints: list[KafkaError] = []
        own = {name: self._options[name] for name in settings.options if name in self._options}
        options: dict[str, Any] = {**own, "bootstrap.servers": settings.bootstrap_servers, **_QUIET}
        options["error_cb"] = self._complaints.append
        self._admin = AdminClient(options)

    def reach(self) -> tuple[dict[int, str], list[str]]:
        """The brokers' addresses by id, and the topics that the principal may see. Unreachable after ten seconds at
        most.

        No topics if the advertised brokers cannot be reached: the client leaves the bootstrap server for them, perhaps
        before it has asked for topics.
        """
        begun = monotonic()
        while True:
            try:
                metadata = self._admin.list_topics(timeout=1.0)
                return {key: f"{each.host}:{each.port}" for key, each in metadata.brokers.items()}, [*metadata.topics]
            except KafkaException as cause:
                self._admin.poll(0)  # serves error_cb
                waited = monotonic() - begun
                codes = {complaint.code() for complaint in self._complaints}
                down = KafkaError._ALL_BROKERS_DOWN in codes and waited >= (_GIVE_UP if len(codes) > 1 else _MUTE)
                if codes & _HOPELESS or down or waited > PATIENCE:
                    if codes & _HOPELESS or not (advertised := self._advertised()):
                        raise self._unreachable(error_of(cause)) from cause
                    return advertised, []

    def topics(self, names: Iterable[str]) -> tuple[list[Topic], dict[str, KafkaError]]:
        """The topics that can be described, and why the others cannot. A question for a topic does not make it."""
        described, refused = list[Topic](), dict[str, KafkaError]()
        wanted = TopicCollection(list(names))
        answers = self._admin.describe_topics(wanted, include_authorized_operations=True, request_timeout=_REQUEST)
        for name, answer in answers.items():
            try:
                found = answer.result()
            except KafkaException as cause:
                refused[name] = error_of(cause)
                continue
            partitions = [_partition(each) for each in found.partitions]
            may = _operations(found.authorized_operations)
            described.append(Topic(name, partitions, may, self.limits(ResourceType.TOPIC, name)))
        return described, refused

    def make(self, topics: list[NewTopic]) -> Iterator[tuple[str, KafkaError | None]]:
        """Makes the topics; yields for each, in order, why it could not be made, or None."""
        answers = self._admin.create_topics(topics, operation_timeout=_REQUEST, request_timeout=PATIENCE)
        for topic in topics:
            try:
                answers[topic.topic].result()
            except KafkaException as cause:
                yield topic.topic, error_of(cause)
            else:
                yield topic.topic, None

    def limits(self, kind: ResourceType, name: str) -> Mapping[str, str] | None:
        """The settings of a topic or a broker; None where the principal may not see them."""
        resource = ConfigResource(kind, name)
        (answer,) = self._admin.describe_configs([resource], request_timeout=_REQUEST).values()
        try:
            return {name: str(entry.value) for name, entry in answer.result().items()}
        except KafkaException:
            return None

    def silent(self, brokers: Mapping[int, str]) -> list[int]:
        """The brokers that do not answer at the address that the cluster advertises for them."""
        resources = [ConfigResource(ResourceType.BROKER, str(broker)) for broker in brokers]
        asked = [(self._admin.describe_configs([each], request_timeout=_REQUEST), each) for each in resources]
        return [int(resource.name) for answers, resource in asked if not _answered(answers[resource])]

    def may(self) -> frozenset[AclOperation] | None:
        """What the principal may do with the cluster; None where the broker does not show it."""
        try:
            answer: Any = self._admin.describe_cluster(include_authorized_operations=True, request_timeout=_REQUEST)
            return _operations(answer.result().authorized_operations)
        except KafkaException:
            return None

    def producer_refused(self) -> KafkaError | None:
        """Why the sink's own producer gets no producer id, without which it publishes nothing; None if it gets one.

        This has to be tried: librdkafka asks the broker for an id as soon as it is connected, and its statistics, once
        a second, say when it has one.
        """
        states, refusals = list[str](), list[KafkaError]()
        watched = {
            "statistics.interval.ms": 1000,
            "stats_cb": lambda text: states.append(json.loads(text)["eos"]["idemp_state"]),
            "error_cb": refusals.append,
        }
        producer = Producer({**self._options, **_QUIET, **watched})
        deadline = monotonic() + PATIENCE
        while "Assigned" not in states and monotonic() < deadline:
            try:
                producer.poll(0.1)
            except KafkaException as cause:  # a fatal error is raised, not given to error_cb
                return error_of(cause)
        if "Assigned" in states:
            return None
        return refusals[-1] if refusals else KafkaError(KafkaError._TIMED_OUT, "no producer id came")

    def _advertised(self) -> dict[int, str]:
        """The brokers that the client complains about by id: a broker must have advertised them."""
        found = (_ADVERTISED.match(complaint.str()) for complaint in self._complaints)
        return {int(broker["id"]): broker["address"] for broker in found if broker}

    def _unreachable(self, last: KafkaError) -> Unreachable:
        telling = [each for each in self._complaints if each.code() != KafkaError._ALL_BROKERS_DOWN]
        error = next(
            (each for each in telling if each.code() in _HOPELESS), (telling or self._complaints or [last])[-1]
        )
        return Unreachable(error.code(), re.sub(r"^\S+/bootstrap: | \((?:after|\d+ identical) .*", "", error.str()))


_ADVERTISED = re.compile(r"(?:\w+://)?(?P<address>\S+:\d+)/(?P<id>\d+): ")
_HOPELESS = {KafkaError._AUTHENTICATION, KafkaError._SSL, KafkaError._RESOLVE}


def _partition(told: Any) -> Partition:
    leader = None if told.leader is None or told.leader.id < 0 else told.leader.id
    return Partition(told.id, leader, [node.id for node in told.replicas], [node.id for node in told.isr])


def _operations(told: Any) -> frozenset[AclOperation] | None:
    return None if told is None else frozenset(told)


def _answered(answer: Any) -> bool:
    try:
        answer.result()
    except KafkaException as cause:
        return error_of(cause).code() not in (KafkaError._TIMED_OUT, KafkaError._TRANSPORT)
    return True


class Commands(NamedTuple):
    """Made once for the settings."""

    bootstrap_servers: str
    principal: str
    secured: bool

    def create_topic(self, topic: str, replicas: int) -> str:
        """walrelay's own command, and Kafka's behind a comment sign: both may be pasted together."""
        factor = f" --replication-factor {replicas}"
        tool = self._tool("kafka-topics.sh", f"--create --topic {topic} --partitions 12{factor}")
        return f"walrelay init --topics {topic}{factor if replicas > 1 else ''}\n# or {tool}"

    def create_positions_topic(self, topic: str, replicas: int) -> str:
        options = f"--partitions 1 --replication-factor {replicas} --config cleanup.policy=compact"
        return self._tool(
            "kafka-topics.sh", f"--create --topic {topic} {options}   # in a cluster of {replicas} brokers"
        )

    def configure_topic(self, topic: str, setting: str) -> str:
        return self._tool(
            "kafka-configs.sh", f"--alter --entity-type topics --entity-name {topic} --add-config {setting}"
        )

    def describe(self, topic: str) -> str:
        return self._tool("kafka-topics.sh", f"--describe --topic {topic}")

    def allow(self, *operations: str, on: str) -> str:
        """`on`: `--cluster`, `--topic name`, or that with `--resource-pattern-type prefixed`."""
        listed = " ".join(f"--operation {operation}" for operation in operations)
        return self._tool("kafka-acls.sh", f"--add --allow-principal 'User:{self.principal}' {listed} {on}")

    def replicate(self, partitions: Mapping[str, list[Partition]], brokers: list[int]) -> str:
        """Puts every partition of these topics on up to three brokers, beginning with the one it is on."""
        moves = [
            {"topic": topic, "partition": each.id, "replicas": spread(each.replicas, brokers)}
            for topic, listed in partitions.items()
            for each in listed
        ]
        plan = json.dumps({"version": 1, "partitions": moves}, separators=(",", ":"))
        move = self._tool("kafka-reassign-partitions.sh", "--reassignment-json-file replicate.json --execute")
        return f"echo '{plan}' > replicate.json && {move}"

    def greet(self) -> str:
        return self._tool("kafka-broker-api-versions.sh", "").rstrip()

    def _tool(self, name: str, arguments: str) -> str:
        login = " --command-config client.properties" if self.secured else ""
        return f"{name} --bootstrap-server {self.bootstrap_servers}{login} {arguments}"


def commands(settings: KafkaSettings) -> Commands:
    """For the settings' cluster; the principal is the SASL user where there is one."""
    options = settings.client_options()
    return Commands(
        settings.bootstrap_servers,
        str(options.get("sasl.username") or options.get("sasl.oauthbearer.client.id") or "..."),
        str(options.get("security.protocol", "plaintext")).lower() != "plaintext",
    )


def spread(replicas: list[int], brokers: list[int]) -> list[int]:
    """`replicas` and, from the broker after the first of them on, further ones up to three."""
    start = brokers.index(replicas[0]) if replicas and replicas[0] in brokers else 0
    others = [broker for broker in brokers[start:] + brokers[:start] if broker not in replicas]
    return (replicas + others)[: max(3, len(replicas))]
