"""Several sinks in a relay, in the installed command: two Kafka clusters, and what happens when one of them is away."""

import json
import random
import re
from typing import Any

import pytest

from tests.acceptance.checking import assert_delivered
from tests.acceptance.conftest import Deploy
from tests.acceptance.deployment import Deployment, event_id
from tests.acceptance.writing import Writers
from tests.servers.database import Database
from tests.servers.kafka import KafkaServer
from tests.servers.topics import Kafka
from tests.servers.waiting import wait_until

_LIMIT = 20_000  # bytes


def two(kafka: Kafka, broker: Kafka, **options: Any) -> dict[str, Any]:
    """`options`: of the client of the second cluster."""
    eu = {"kind": "kafka", "bootstrap_servers": kafka.bootstrap_servers}
    us = {"kind": "kafka", "bootstrap_servers": broker.bootstrap_servers, "options": options}
    return {"eu": eu, "us": us}


@pytest.fixture
def both(deploy: Deploy, database: Database, kafka: Kafka, broker: KafkaServer) -> Deployment:
    """Every event goes to the topic of the same name in both clusters."""
    topic = kafka.create_topic(partitions=3)
    broker.create_topic(topic, partitions=3)
    return deploy(database, kafka, topic, sink=None, sinks=two(kafka, broker), route={"sink": ["eu", "us"]})


@pytest.mark.parametrize("kills", [1, pytest.param(6, marks=pytest.mark.chaos)])
def test_when_the_relay_and_a_broker_are_killed_neither_cluster_loses_or_reorders_anything(
    both: Deployment, database: Database, broker: KafkaServer, kills: int
) -> None:
    rng = random.Random(34)
    with Writers(database, seed=34) as writers:
        for _ in range(kills):
            relay = both.start()
            writers.wait_for_more(rng.randint(20, 200))
            relay.kill()
        relay = both.start()
        writers.wait_for_more(100)
        broker.kill()
        writers.wait_for_more(100)
        relay.kill()
        both.start()
        writers.wait_for_more(100)
        broker.start()
    both.catch_up()
    assert_delivered(both, writers)
    assert_delivered(both, writers, at=broker)


def test_while_one_cluster_is_away_the_other_goes_on_and_the_position_waits(
    both: Deployment, broker: KafkaServer
) -> None:
    relay = both.start()
    both.write("1")
    both.catch_up()
    broker.stop()
    both.write("2", "3")
    between = both.position()
    both.write("4")
    wait_until(lambda: len(both.delivered()) == 4, 30, "the events at the cluster that is there")
    assert "us: " in relay.wait_for("stalled")["why"]
    assert both.slot.confirmed < between
    broker.start()
    both.catch_up()
    for cluster in (both.kafka, broker):
        assert assert_delivered(both, at=cluster).duplicates == 0


def test_a_refusal_of_one_sink_is_its_dead_letter_and_is_replayed_to_it_alone(
    both: Deployment, kafka: Kafka, broker: KafkaServer
) -> None:
    both.write_settings(sinks=two(kafka, broker, **{"message.max.bytes": _LIMIT}), refusals={"policy": "dead_letter"})
    relay = both.start()
    (large,) = both.write(json.dumps("x" * 2 * _LIMIT))
    (small,) = both.write("1")
    both.catch_up()
    relay.stop()

    def at_us() -> list[str]:
        return sorted(event_id(message) for message in broker.read_all(both.topic))

    assert sorted(both.delivered_ids()) == sorted([large, small])
    assert at_us() == [small]
    (letter,) = map(json.loads, both.command("dlq", "list", "--json").splitlines())
    assert (letter["id"], letter["sink"], letter["topic"]) == (large, "us", f"us:{both.topic}")
    both.write_settings(sinks=two(kafka, broker))
    both.command("dlq", "replay", "--id", large)
    assert at_us() == sorted([large, small])
    assert sorted(both.delivered_ids()) == sorted([large, small]), "the other has it already"


def test_rules_choose_among_sinks_and_the_commands_know_their_addresses(
    both: Deployment, kafka: Kafka, broker: KafkaServer
) -> None:
    archive = f"{both.topic}.archive"
    routes: list[dict[str, Any]] = [
        {"name": "kept", "when": {"payload.keep": True}, "topic": archive, "sink": "us", "continue": True},
        {"name": "all", "sink": "eu"},
    ]
    both.write_settings(route={"sink": None}, routes=routes)
    both.command("init", "--topics", f"us:{archive}", "--exact")
    said = both.command("doctor", exit_code=None)
    assert re.search(rf"eu: topic {re.escape(both.topic)}\b", said), said
    assert re.search(rf"us: topic {re.escape(archive)}\b", said), said
    both.start()
    plain, kept = both.write('{"keep": false}', '{"keep": true}')
    both.catch_up()
    assert both.delivered_ids() == [plain, kept]
    assert [event_id(message) for message in broker.read_all(archive)] == [kept]
    lines = both.command("route", "test", "--rows", "1", "--json").splitlines()
    assert [message["topic"] for message in json.loads(lines[0])["messages"]] == [f"us:{archive}", f"eu:{both.topic}"]
    report = json.loads(both.command("audit", "--json"))
    assert (report["missing"], report["messages"]) == (0, 3)
    assert {span["topic"] for span in report["spans"]} >= {f"us:{archive}", f"eu:{both.topic}"}
    side = broker.create_topic()
    both.command("replay", "--id", kept, "--topic", f"us:{side}")
    assert [event_id(message) for message in broker.read_all(side)] == [kept], "once, although two rules match it"
    assert "names no sink of this relay" in both.said("replay", "--id", kept, "--topic", side, exit_code=1)
    both.command("replay", "--id", kept, "--yes")
    assert [event_id(message) for message in broker.read_all(archive)] == [kept, kept]
