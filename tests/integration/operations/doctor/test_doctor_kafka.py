"""The doctor and what may be wrong with Kafka, on a real broker that asks for a login."""

import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AclOperation

from tests.servers import choose
from tests.servers.choose import Machine
from tests.servers.kafka import KafkaServer
from tests.servers.kafka_jars import KafkaJars
from tests.servers.ports import LOOPBACK
from walrelay.errors import Fatal
from walrelay.model import Finding
from walrelay.sinks.kafka import cluster
from walrelay.sinks.kafka.examine import examine
from walrelay.sinks.kafka.settings import KafkaSettings
from walrelay.sinks.kafka.topics import make_topics

USERS = {"admin": "secret", "relay": "secret", "stranger": "secret"}


@pytest.fixture(scope="module")
def jars(machine: Machine) -> KafkaJars:
    return choose.found(lambda: choose.kafka_jars(machine))


@pytest.fixture(scope="module")
def broker(jars: KafkaJars) -> Iterator[KafkaServer]:
    """Users log in; `admin` may do everything, the others what the test allows."""
    super_users = {"super.users": "User:ANONYMOUS;User:admin"}
    with KafkaServer(jars, users=USERS, properties=super_users) as server:
        yield server


@pytest.fixture(scope="module")
def generous(jars: KafkaJars) -> Iterator[KafkaServer]:
    """Makes topics when they are first named, and is reached through a proxy."""
    with KafkaServer(jars, auto_create_topics=True, proxied=True) as server:
        yield server


@pytest.fixture
def topic(broker: KafkaServer) -> Iterator[str]:
    name = broker.create_topic(partitions=2)
    yield name
    broker.delete_topics(name)


def kafka(bootstrap_servers: str, **settings: Any) -> KafkaSettings:
    return KafkaSettings.model_validate({"bootstrap_servers": bootstrap_servers, **settings})


def as_user(broker: KafkaServer, user: str, **settings: Any) -> KafkaSettings:
    options = broker.client_settings(user)
    servers = options.pop("bootstrap.servers")
    return kafka(servers, options={**options, **settings.pop("options", {})}, **settings)


def complaints(settings: KafkaSettings, *topics: str) -> list[Finding]:
    return [finding for finding in examine(settings, topics) if finding.verdict != "ok"]


def test_nothing_is_to_be_said_against_a_single_healthy_broker(broker: KafkaServer, topic: str) -> None:
    findings = list(examine(as_user(broker, "admin"), [topic]))
    assert {finding.verdict for finding in findings} == {"ok"}
    assert "replicas" not in {finding.subject for finding in findings}, "there is no other broker"
    assert findings[0] == ("Kafka", "ok", f"1 broker: {broker.bootstrap_servers}", "")
    assert findings[-1] == ("producer", "ok", "idempotent, acks=all", "")


def test_the_client_library_writes_nothing_by_itself(capfd: pytest.CaptureFixture[str]) -> None:
    (complaint,) = complaints(kafka("127.0.0.1:1", options={"debug": "broker"}), "events")
    assert complaint.verdict == "problem"
    assert capfd.readouterr() == ("", "")


def test_no_broker_is_there() -> None:
    (complaint,) = complaints(kafka("127.0.0.1:1"), "events")
    assert complaint == (
        "Kafka",
        "problem",
        "cannot be reached at 127.0.0.1:1: Connect to ipv4#127.0.0.1:1 failed: Connection refused",
        "kafka-broker-api-versions.sh --bootstrap-server 127.0.0.1:1",
    )


def test_a_name_that_does_not_resolve() -> None:
    (complaint,) = complaints(kafka("no-such-broker.invalid:9092"), "events")
    assert "Failed to resolve" in complaint.detail


def test_a_port_that_takes_connections_and_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "PATIENCE", 2.0)
    with socket.create_server((LOOPBACK, 0)) as mute:
        host, port = mute.getsockname()[:2]
        (complaint,) = complaints(kafka(f"{host}:{port}"), "events")
    assert (complaint.subject, complaint.verdict) == ("Kafka", "problem")


def test_a_wrong_password(broker: KafkaServer, topic: str) -> None:
    (complaint,) = complaints(as_user(broker, "relay", options={"sasl.password": "wrong"}), topic)
    assert complaint.detail.startswith(f"does not let walrelay in at {broker.bootstrap_servers}: ")
    assert "Invalid username or password" in complaint.detail
    assert complaint.fix.startswith("sink.options: {sasl.mechanism: ")


def test_a_listener_that_asks_for_a_login(broker: KafkaServer, topic: str) -> None:
    (complaint,) = complaints(kafka(broker.bootstrap_servers), topic)
    assert complaint.detail.startswith("closes every connection")
    assert "security.protocol" in complaint.fix


def test_an_option_that_librdkafka_refuses_here() -> None:
    settings = kafka("127.0.0.1:1", options={"security.protocol": "ssl", "ssl.ca.location": "/not/there"})
    (complaint,) = complaints(settings, "events")
    assert complaint.detail.startswith("librdkafka refuses sink.options: ")
    assert "ssl.ca.location" in complaint.detail


def test_a_topic_that_does_not_exist(broker: KafkaServer) -> None:
    (complaint,) = complaints(as_user(broker, "admin"), "missing")
    assert (complaint.subject, complaint.verdict, complaint.detail) == ("topic missing", "problem", "does not exist")
    assert complaint.fix.endswith(" --create --topic missing --partitions 12 --replication-factor 1")
    assert "missing" not in broker.admin.list_topics(timeout=10).topics, "asking must not make it"
    broker.create_topic("missing", partitions=12)
    assert "does not exist" not in {each.detail for each in complaints(as_user(broker, "admin"), "missing")}
    broker.delete_topics("missing")


def test_a_topic_that_nobody_will_create(broker: KafkaServer) -> None:
    (complaint,) = complaints(as_user(broker, "admin", create_topics=True), "absent")
    assert complaint.verdict == "problem"
    assert "auto.create.topics.enable is false" in complaint.detail


def test_a_topic_that_the_principal_may_not_make(broker: KafkaServer) -> None:
    with pytest.raises(Fatal, match="topic fresh could not be made: ") as caught:
        list(make_topics(as_user(broker, "stranger"), ["fresh"], 1, None))
    assert caught.value.hint.endswith(" --add --allow-principal 'User:stranger' --operation Create --topic fresh")
    assert "fresh" not in broker.admin.list_topics(timeout=10).topics


def test_a_topic_that_the_principal_may_not_write(broker: KafkaServer, topic: str) -> None:
    found = complaints(as_user(broker, "relay"), topic)
    assert [(each.verdict, each.detail) for each in found] == [("problem", "walrelay's principal may not write it")]
    allowed = f"--allow-principal 'User:relay' --operation Write --operation Describe --topic {topic}"
    assert found[0].fix == (
        f"kafka-acls.sh --bootstrap-server {broker.bootstrap_servers} --command-config client.properties"
        f" --add {allowed}"
    )
    broker.allow("relay", AclOperation.WRITE, topic)
    (complaint,) = complaints(as_user(broker, "relay"), topic)
    assert complaint.verdict == "warning", "what the principal may not see is said, and does not block"
    assert "--operation DescribeConfigs" in complaint.fix
    broker.allow("relay", AclOperation.DESCRIBE_CONFIGS, topic)
    assert complaints(as_user(broker, "relay"), topic) == []


def test_a_principal_that_may_only_look(broker: KafkaServer, topic: str) -> None:
    broker.allow("relay", AclOperation.DESCRIBE, topic)
    assert complaints(as_user(broker, "relay"), topic)[0].detail == "walrelay's principal may not write it"


def test_a_principal_that_gets_no_producer_id(broker: KafkaServer) -> None:
    complaint = complaints(as_user(broker, "stranger"), "outbox.event.*")[-1]
    assert (complaint.subject, complaint.verdict) == ("producer", "problem")
    assert complaint.fix.endswith("--allow-principal 'User:stranger' --operation IdempotentWrite --cluster")


def test_a_topic_that_takes_smaller_messages_than_the_sink_sends(broker: KafkaServer, jars: KafkaJars) -> None:
    topic = broker.create_topic(config={"max.message.bytes": "500000"})
    settings = as_user(broker, "admin")
    complaint = complaints(settings, topic)[0]
    assert complaint.detail.startswith("accepts messages of 500000 bytes, the sink sends up to 1000000")
    _configure(jars, broker, complaint.fix)
    assert not any("accepts messages" in each.detail for each in complaints(settings, topic))
    broker.delete_topics(topic)


def test_min_insync_replicas_that_can_never_be_in_sync(broker: KafkaServer) -> None:
    topic = broker.create_topic(config={"min.insync.replicas": "2"})
    complaint = complaints(as_user(broker, "admin"), topic)[0]
    assert (complaint.verdict, complaint.detail) == (
        "problem",
        "min.insync.replicas is 2, but there is only 1 replica: no message is ever taken",
    )
    assert complaint.fix.endswith(f"--entity-name {topic} --add-config min.insync.replicas=1")
    broker.delete_topics(topic)


def test_topics_named_by_the_rows_are_examined_as_far_as_they_exist(broker: KafkaServer) -> None:
    settings = as_user(broker, "admin")
    (complaint,) = complaints(settings, "shop.*.events")
    assert complaint.verdict == "warning"
    assert "--create --topic shop.NAME.events " in complaint.fix
    broker.create_topic("shop.order.events", config={"cleanup.policy": "compact"})
    findings = list(examine(settings, ["shop.*.events"]))
    assert any(each.subject == "topic shop.order.events" and "is compacted" in each.detail for each in findings)
    assert any(each.subject == "topics shop.*.events" and each.verdict == "ok" for each in findings)
    broker.delete_topics("shop.order.events")


def test_topics_that_the_broker_makes(generous: KafkaServer) -> None:
    settings = kafka(generous.bootstrap_servers, create_topics=True)
    assert complaints(settings, "events.*", "events") == []
    *_, others, missing, _ = examine(settings, ["events.*", "events"])
    assert others.detail.startswith("none exists; others are made with their first event, with one replica only")
    assert missing.detail.startswith("does not exist, and is made with the first event, with one replica only")
    assert "events" not in generous.admin.list_topics(timeout=10).topics, "asking must not make it"


def test_a_broker_that_advertises_an_address_that_cannot_be_reached(generous: KafkaServer) -> None:
    generous.proxy.refuse()
    try:
        (complaint,) = complaints(kafka(f"{LOOPBACK}:{generous._clients_port}"), "events")
    finally:
        generous.proxy.resume()
    detail = f"broker 1 cannot be reached at {generous.bootstrap_servers}, the address that it advertises"
    assert (complaint.verdict, complaint.detail) == ("problem", detail)


def _configure(jars: KafkaJars, broker: KafkaServer, fix: str) -> None:
    """Runs the real kafka-configs.sh, by the tests' own listener, which asks for no login."""
    words = fix.split()
    assert words[0] == "kafka-configs.sh"
    words[words.index("--bootstrap-server") + 1] = broker._for_tests
    at = words.index("--command-config")
    del words[at : at + 2]
    java: list[str | Path] = [jars.java, "-cp", jars.class_path, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
    subprocess.run([*java, "kafka.admin.ConfigCommand", *words[1:]], check=True, capture_output=True, timeout=60)
