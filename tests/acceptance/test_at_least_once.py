"""At least once, in commit order, whatever dies: each test ends in `assert_delivered`."""

import random
from collections.abc import Callable
from time import monotonic

import pytest

from tests.acceptance.checking import assert_delivered
from tests.acceptance.conftest import Deploy, Measured
from tests.acceptance.writing import Writers
from tests.conftest import PostgresMaker
from tests.servers.database import Database
from tests.servers.kafka import KafkaServer
from tests.servers.postgres import StopMode
from tests.servers.topics import Kafka

QUEUE = 1000  # messages
CONFIRM_INTERVAL = 0.1  # seconds, the default
CATCHING_UP = 10


@pytest.mark.parametrize("kills", [8, pytest.param(50, marks=pytest.mark.chaos)])
def test_kill_9_of_the_relay_at_random_moments_loses_and_reorders_nothing(
    deploy: Deploy, database: Database, kafka: Kafka, topic: str, measured: Measured, kills: int
) -> None:
    rng = random.Random(20)
    deployment = deploy(database, kafka, topic, sink={"max_queued_messages": QUEUE}, log={"level": "debug"})
    began = monotonic()
    with Writers(database, seed=20) as writers:
        for _ in range(kills):
            relay = deployment.launch()
            if phase := rng.choice(["", "streaming", "confirmed"]):  # it may die while it starts, too
                relay.wait_for(phase)
            relay.lives_for(rng.uniform(0, 0.5))
            relay.kill()
        rate = len(writers.acknowledged) / (monotonic() - began)
    deployment.start()
    deployment.catch_up()
    delivery = assert_delivered(deployment, writers)
    measured(f"after {kills} kills of the relay", delivery)
    assert delivery.duplicates, "no relay died between publishing and confirming, so nothing was tested"
    measured("repeated by a kill, of events a second", (delivery.duplicates // kills, round(rate)))
    # A relay that catches up publishes faster than is written, but never more than the queue ahead of the receipts.
    assert delivery.duplicates <= kills * (QUEUE + CATCHING_UP * rate * CONFIRM_INTERVAL)


@pytest.mark.parametrize("end", [KafkaServer.stop, KafkaServer.kill], ids=["stopped", "killed"])
def test_a_broker_that_goes_and_comes_back_gets_everything_once(
    deploy: Deploy, database: Database, broker: KafkaServer, end: Callable[[KafkaServer], None]
) -> None:
    deployment = deploy(database, broker, broker.create_topic(partitions=3))
    relay = deployment.start()
    with Writers(database, seed=21) as writers:
        writers.wait_for_more(300)
        end(broker)
        writers.wait_for_more(300)
        broker.start()
        writers.wait_for_more(300)
    deployment.catch_up()
    assert len(relay.events("streaming")) == 1, "the producer retries by itself; there is no need for a new run"
    assert assert_delivered(deployment, writers).duplicates == 0


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_postgres_restarted_under_load_loses_and_reorders_nothing(
    deploy: Deploy, private_postgres: PostgresMaker, kafka: Kafka, topic: str, mode: StopMode, measured: Measured
) -> None:
    server = private_postgres()
    deployment = deploy(server.create_database(), kafka, topic)
    relay = deployment.start()
    with Writers(deployment.database, seed=22) as writers:
        for restarts in range(1, 4):
            writers.wait_for_more(300)
            server.restart(mode, timeout=10)
            relay.wait_for("streaming", more_than=restarts)
        writers.wait_for_more(300)
    deployment.catch_up()
    measured(f"after 3 {mode} restarts of PostgreSQL", assert_delivered(deployment, writers))
