"""The doctor and the topic that holds positions, on a real broker."""

from uuid import uuid4

from tests.servers.topics import Kafka
from walrelay.model import Finding
from walrelay.sinks.kafka.examine import examine_positions
from walrelay.sinks.kafka.settings import KafkaSettings


def found(kafka: Kafka, topic: str) -> Finding:
    settings = {"bootstrap_servers": kafka.bootstrap_servers, "positions_topic": topic}
    (finding,) = examine_positions(KafkaSettings.model_validate(settings))
    assert finding.subject == f"topic {topic}"
    return finding


def test_a_topic_that_is_not_there_is_left_to_the_relay(kafka: Kafka) -> None:
    finding = found(kafka, f"positions-{uuid4().hex[:8]}")
    assert finding.verdict == "ok"
    assert "the relay will create it" in finding.detail


def test_a_topic_that_would_forget_positions_is_a_problem(kafka: Kafka) -> None:
    name = kafka.create_topic(config={"cleanup.policy": "delete"})
    finding = found(kafka, name)
    assert finding.verdict == "problem"
    assert "cleanup.policy=compact" in finding.fix
    kafka.delete_topics(name)


def test_a_topic_on_the_only_broker_there_is_is_no_fault(kafka: Kafka) -> None:
    name = kafka.create_topic(config={"cleanup.policy": "compact"})
    assert found(kafka, name)[1:3] == ("ok", "holds positions, 1 replica")
    kafka.delete_topics(name)
