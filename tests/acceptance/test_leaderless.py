"""A partition without a leader holds up what is behind its events, for however long; nothing comes twice or is lost."""

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer

from tests.acceptance.checking import assert_delivered
from tests.acceptance.conftest import Deploy
from tests.conftest import PostgresMaker
from tests.servers import choose
from tests.servers.choose import Machine
from tests.servers.kafka import KafkaServer
from tests.servers.topics import QUIET
from tests.servers.waiting import wait_until

ROWS = 2_000


@pytest.fixture(scope="module")
def brokers(machine: Machine) -> Iterator[tuple[KafkaServer, KafkaServer]]:
    """Two of one cluster. Positions, and what Kafka notes of transactions, are on the first: the second came later."""
    jars = choose.found(lambda: choose.kafka_jars(machine))
    with KafkaServer(jars) as first:
        first.create_topic("walrelay.positions", config={"cleanup.policy": "compact"})
        options = {"bootstrap.servers": first.bootstrap_servers, "transactional.id": "first"}
        wait_until(lambda: began(options), 30, "Kafka to note transactions", ignoring=KafkaException)
        with KafkaServer(jars, beside=first) as second:
            yield first, second


def began(options: dict[str, Any]) -> bool:
    Producer({**QUIET, **options}).init_transactions(5)
    return True


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "way",
    [
        pytest.param({}, id="at least once"),
        pytest.param(
            {"delivery": "exactly_once", "sink": {"transaction_timeout": 3}}, id="exactly once", marks=pytest.mark.chaos
        ),
    ],
)
def test_a_partition_without_a_leader_for_longer_than_every_timeout_repeats_and_loses_nothing(
    deploy: Deploy,
    private_postgres: PostgresMaker,
    brokers: tuple[KafkaServer, KafkaServer],
    way: dict[str, dict[str, Any]],
) -> None:
    first, second = brokers
    second.start()
    database = private_postgres(wal_sender_timeout="3s").create_database()
    topic = first.create_spread_topic(1, 2)
    sink = {"max_queued_messages": 200, "group_messages": 100, **way.get("sink", {})}
    deployment = deploy(database, first, topic, **{**way, "sink": sink, "source": {"pause_limit": 2}})
    relay = deployment.start()
    deployment.write_rows(100)
    deployment.catch_up()
    second.stop()
    first.wait_for_leaders(topic, 1)
    deployment.write_rows(ROWS)
    behind = deployment.position()
    if way:  # the broker takes a transaction back that is not over in time, and the next run offers it again
        relay.wait_for("streaming", more_than=2, timeout=60)
    else:
        relay.wait_for("noticed", containing="the sink has accepted nothing for 2 s")
        relay.lives_for(5)
    assert deployment.slot.confirmed < behind
    second.start()
    deployment.catch_up(timeout=60)
    delivery = assert_delivered(deployment)
    assert (delivery.events, delivery.duplicates) == (100 + ROWS, 0)
    assert relay.events("fatal") == []
