"""At least once, in the order of each key, whatever dies, for every sink: against the broker's own server."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.checking import assert_delivered
from tests.acceptance.conftest import Deploy, Measured
from tests.acceptance.writing import Writers
from tests.brokers import Broker, aws
from tests.brokers.aws import EventbridgeCase, KinesisCase, SnsCase, SqsCase
from tests.brokers.file import FileOfLines
from tests.brokers.nats import NatsStream
from tests.brokers.postgres import PostgresTable
from tests.brokers.pubsub import PubsubTopic
from tests.brokers.pulsar import PulsarTopic
from tests.brokers.rabbitmq import RabbitmqQueue
from tests.brokers.redis import RedisStream
from tests.brokers.servicebus import ServicebusEntity
from tests.brokers.webhook import WebhookPath
from tests.conftest import PostgresMaker
from tests.servers.database import Database

KILLS = 5
BROKERS = ["nats", "postgres", "rabbitmq", "redis", "webhook"]
AWS = {"sqs": SqsCase, "sns": SnsCase, "kinesis": KinesisCase, "eventbridge": EventbridgeCase}
SLOW = ["pubsub", "pulsar", "servicebus", *AWS]
ALSO_SLOW = [*BROKERS, *(pytest.param(kind, marks=pytest.mark.slow) for kind in SLOW)]
ALSO_ALWAYS_THERE = [*ALSO_SLOW, "file"]
POSTGRES_DIES = [
    pytest.param(kind, marks=[pytest.mark.chaos] * (kind != "rabbitmq")) for kind in (*BROKERS, *SLOW, "file")
]
"""The sink is held meanwhile, by the same code for all."""


@pytest.fixture(params=ALSO_SLOW)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Broker]:
    if request.param == "file":
        yield FileOfLines(tmp_path)
        return
    server = request.getfixturevalue("stoppable_moto" if request.param in AWS else f"stoppable_{request.param}")
    yield place_at(request.param, server)
    server.start()


def place_at(kind: str, server: Any) -> Broker:
    """A place of its own at a server of that kind."""
    made: dict[str, Callable[[Any], Broker]] = {
        "nats": NatsStream,
        "postgres": PostgresTable,
        "pulsar": PulsarTopic,
        "pubsub": PubsubTopic,
        "rabbitmq": RabbitmqQueue,
        "redis": RedisStream,
        "servicebus": ServicebusEntity,
        "webhook": WebhookPath,
        **{kind: aws.place(kind, case) for kind, case in AWS.items()},
    }
    return made[kind](server)


@pytest.mark.parametrize("place", ALSO_ALWAYS_THERE, indirect=True)
def test_kill_9_of_the_relay_loses_and_reorders_nothing(
    deploy: Deploy, database: Database, place: Broker, measured: Measured
) -> None:
    rng = random.Random(15)
    deployment = deploy(database, place, place.topic)
    with Writers(database, seed=15, pause=0.02) as writers:
        for _ in range(KILLS):
            relay = deployment.launch()
            if phase := rng.choice(["", "streaming", "streaming"]):
                relay.wait_for(phase)
            relay.lives_for(rng.uniform(0, 0.5))
            relay.kill()
    deployment.start()
    deployment.catch_up()
    measured(f"after {KILLS} kills of the relay", assert_delivered(deployment, writers))


def test_a_broker_that_is_killed_and_comes_back_gets_everything(
    deploy: Deploy, database: Database, place: Broker, measured: Measured
) -> None:
    deployment = deploy(database, place, place.topic)
    relay = deployment.start()
    with Writers(database, seed=16, pause=0.02) as writers:
        writers.wait_for_more(300)
        place.kill()
        writers.wait_for_more(300)
        place.start()
        writers.wait_for_more(300)
    deployment.catch_up()
    assert relay.events("fatal") == relay.events("retrying") == []
    assert len(relay.events("streaming")) == 1
    measured("after the broker was killed", assert_delivered(deployment, writers))


@pytest.mark.parametrize("place", POSTGRES_DIES, indirect=True)
def test_postgres_killed_under_load_loses_and_reorders_nothing(
    deploy: Deploy, private_postgres: PostgresMaker, place: Broker, measured: Measured
) -> None:
    server = private_postgres()
    deployment = deploy(server.create_database(), place, place.topic)
    relay = deployment.start()
    with Writers(deployment.database, seed=17, pause=0.02) as writers:
        for restarts in range(1, 3):
            writers.wait_for_more(300)
            server.restart("immediate", timeout=10)
            relay.wait_for("streaming", more_than=restarts)
        writers.wait_for_more(300)
    deployment.catch_up()
    measured("after 2 immediate restarts of PostgreSQL", assert_delivered(deployment, writers))
