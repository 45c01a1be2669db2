"""What the doctor says about a Kafka topic, from what the brokers told."""

import json
from collections.abc import Mapping

import pytest
from confluent_kafka.admin import AclOperation

from walrelay.model import Finding
from walrelay.sinks.kafka.cluster import Partition, Topic, commands, spread
from walrelay.sinks.kafka.examine import positions_finding
from walrelay.sinks.kafka.settings import KafkaSettings
from walrelay.sinks.kafka.topics import single_replicas, topic_findings

TOOLS = commands(KafkaSettings.model_validate({"bootstrap_servers": "a:9092,b:9092"}))
SAFE = {"max.message.bytes": "1048588", "min.insync.replicas": "2", "cleanup.policy": "delete"}
WHOLE = Partition(0, 1, [1, 2, 3], [1, 2, 3])


def topic(partition: Partition = WHOLE, **limits: str) -> Topic:
    settings: Mapping[str, str] = {**SAFE, **{name.replace("_", "."): value for name, value in limits.items()}}
    return Topic("events", [partition], frozenset(AclOperation), settings)


def said(topic: Topic) -> list[Finding]:
    return list(topic_findings(topic, 1_000_000, TOOLS))


def test_a_topic_of_three_replicas_of_which_two_are_needed_is_fine() -> None:
    assert said(topic()) == []


def test_acks_of_a_single_broker_are_warned_of_with_the_command_that_asks_for_two() -> None:
    (complaint,) = said(topic(min_insync_replicas="1"))
    assert complaint.verdict == "warning"
    assert complaint.fix == (
        "kafka-configs.sh --bootstrap-server a:9092,b:9092 --alter --entity-type topics --entity-name events"
        " --add-config min.insync.replicas=2"
    )


def test_topics_of_a_single_replica_are_one_warning_with_a_plan_for_three() -> None:
    single = topic(Partition(0, 2, [2], [2]), min_insync_replicas="1")
    assert said(single) == []
    (complaint,) = single_replicas([single, topic(), single._replace(name="orders")], [1, 2, 3], TOOLS)
    assert complaint.verdict == "warning"
    assert complaint.detail.startswith("one replica only of events, orders: ")
    plan = json.loads(complaint.fix.split("'")[1])
    assert plan["partitions"] == [
        {"topic": name, "partition": 0, "replicas": [2, 3, 1]} for name in ("events", "orders")
    ]
    assert complaint.fix.endswith("--reassignment-json-file replicate.json --execute")


def test_nothing_is_said_of_single_replicas_where_there_is_one_broker() -> None:
    assert list(single_replicas([topic(Partition(0, 1, [1], [1]))], [1], TOOLS)) == []
    assert list(single_replicas([topic()], [1, 2], TOOLS)) == []


def test_too_few_replicas_in_sync_block() -> None:
    (complaint,) = said(topic(Partition(4, 1, [1, 2, 3], [1])))
    assert complaint.verdict == "problem"
    assert "in partitions 4: no message is taken now" in complaint.detail


def test_a_partition_without_a_leader_blocks() -> None:
    (complaint,) = said(topic(Partition(0, None, [1, 2, 3], [1, 2])))
    assert (complaint.verdict, complaint.detail) == ("problem", "partitions without a leader: 0; they take no message")


def test_unclean_leader_elections_are_warned_of() -> None:
    (complaint,) = said(topic(unclean_leader_election_enable="true"))
    assert complaint.fix.endswith("unclean.leader.election.enable=false")


def test_what_the_broker_does_not_tell_is_not_complained_of() -> None:
    assert said(topic()._replace(may=None)) == []


@pytest.mark.parametrize(
    ("replicas", "brokers", "chosen"),
    [
        ([1], [1, 2, 3], [1, 2, 3]),
        ([3], [1, 2, 3, 4], [3, 4, 1]),
        ([2, 1], [1, 2], [2, 1]),
        ([1, 2, 3, 4], [1, 2, 3, 4], [1, 2, 3, 4]),
    ],
)
def test_replicas_are_spread_from_the_broker_they_are_on(
    replicas: list[int], brokers: list[int], chosen: list[int]
) -> None:
    assert spread(replicas, brokers) == chosen


def test_positions_on_one_of_several_brokers_are_warned_of() -> None:
    single = topic(Partition(0, 1, [1], [1]), cleanup_policy="compact")
    assert [positions_finding(single, brokers, TOOLS).verdict for brokers in (1, 3)] == ["ok", "warning"]
