"""Exactly once to Kafka, whatever dies: a consumer that reads committed messages sees each event once, in order."""

import random

from tests.acceptance.checking import assert_delivered
from tests.acceptance.conftest import Deploy, Measured
from tests.acceptance.writing import Writers
from tests.servers.database import Database
from tests.servers.topics import Kafka

EXACTLY_ONCE = {"delivery": "exactly_once"}
KILLS = 50


def test_fifty_kills_under_load_lose_repeat_and_reorder_nothing(
    deploy: Deploy, database: Database, kafka: Kafka, topic: str, measured: Measured
) -> None:
    rng = random.Random(40)
    deployment = deploy(database, kafka, topic, log={"level": "debug"}, **EXACTLY_ONCE)
    with Writers(database, seed=40) as writers:
        for _ in range(KILLS):
            relay = deployment.launch()
            if phase := rng.choice(["", "streaming", "confirmed", "confirmed"]):  # it may die while it starts, too
                relay.wait_for(phase)
            relay.lives_for(rng.uniform(0, 0.3))
            relay.kill()
    deployment.start()
    deployment.catch_up()
    delivery = assert_delivered(deployment, writers)
    measured(f"exactly once, after {KILLS} kills of the relay", delivery)
    assert delivery.duplicates == 0
