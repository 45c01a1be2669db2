"""Kafka's own command-line tools as text to paste, with the cluster's address and, where it asks for it, a login."""

import json
from collections.abc import Mapping
from typing import NamedTuple

from walrelay.sinks.kafka.cluster import Partition
from walrelay.sinks.kafka.settings import KafkaSettings


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
