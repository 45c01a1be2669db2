"""A graceful stop settles, confirms and leaves: nothing is sent twice, and it takes no longer than it may."""

import random
import signal
import time

import pytest

from tests.acceptance.checking import assert_delivered
from tests.acceptance.conftest import Deploy
from tests.acceptance.deployment import Deployment
from tests.acceptance.writing import Writers
from tests.servers.database import Database
from tests.servers.kafka import KafkaServer

LARGE = 100_000


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("restarts", [3, pytest.param(12, marks=pytest.mark.chaos)])
def test_a_graceful_restart_under_load_repeats_nothing(
    deployment: Deployment, number: signal.Signals, restarts: int
) -> None:
    rng = random.Random(number)
    with Writers(deployment.database, seed=number) as writers:
        for _ in range(restarts):
            relay = deployment.start()
            relay.lives_for(rng.uniform(0, 0.5))
            relay.send(number)
            assert relay.wait() == 0
            assert relay.wait_for("stopped")["unsettled"] == 0
    deployment.start()
    deployment.catch_up()
    assert assert_delivered(deployment, writers).duplicates == 0


def test_a_graceful_stop_in_the_middle_of_a_large_transaction_repeats_nothing(deployment: Deployment) -> None:
    deployment.write_rows(LARGE)
    deployment.write("{}")
    relay = deployment.start()
    before = deployment.slot.confirmed
    deployment.kafka.consume(deployment.topic, count=1000)
    assert deployment.slot.confirmed == before, "the large transaction was over before the test began"
    relay.stop()
    assert relay.wait_for("stopped")["unsettled"] == 0
    deployment.start()
    deployment.catch_up()
    assert assert_delivered(deployment).duplicates == 0


def test_a_graceful_stop_between_large_transactions_repeats_nothing(deployment: Deployment) -> None:
    """The server is in the middle of sending the second when the end of the first is to be confirmed."""
    deployment.write_rows(LARGE // 2)
    before = deployment.slot.confirmed
    deployment.write_rows(LARGE * 2)
    relay = deployment.start()
    deployment.kafka.consume(deployment.topic, count=1000)
    relay.stop()
    assert relay.wait_for("stopped")["unsettled"] == 0
    assert deployment.slot.confirmed > before
    assert len(deployment.delivered()) in {LARGE // 2, LARGE // 2 + LARGE * 2}, "it stops between transactions"
    deployment.start()
    deployment.catch_up(60)
    assert assert_delivered(deployment).duplicates == 0


def test_a_stop_while_the_broker_is_away_ends_in_time_and_loses_nothing(
    deploy: Deploy, database: Database, broker: KafkaServer
) -> None:
    deployment = deploy(database, broker, broker.create_topic(partitions=3), shutdown_timeout=2)
    relay = deployment.start()
    with Writers(database, seed=40) as writers:
        writers.wait_for_more(200)
        broker.stop()
        writers.wait_for_more(200)
    relay.wait_for("stalled")
    asked = time.monotonic()
    relay.send(signal.SIGTERM)
    assert relay.wait() == 0
    assert time.monotonic() - asked < 2 + 20  # it would wait for the broker for ever
    assert relay.wait_for("stopped")["unsettled"] > 0
    broker.start()
    deployment.start()
    deployment.catch_up()
    assert_delivered(deployment, writers)


def test_a_stop_is_answered_at_once_while_the_sink_has_no_room(
    deploy: Deploy, database: Database, broker: KafkaServer
) -> None:
    deployment = deploy(database, broker, broker.create_topic(), sink={"max_queued_messages": 10})
    relay = deployment.start()
    broker.stop()
    deployment.write(*["{}"] * 20)
    relay.wait_for("stalled")
    relay.send(signal.SIGINT)
    stopping = relay.wait_for("stopping", timeout=5)
    assert 1 <= stopping["unsettled"] <= 10
    assert stopping["within_seconds"] == 25
    broker.start()
    assert relay.wait() == 0
    assert len(relay.events("stopping")) == 1


def test_a_second_signal_ends_at_once(deploy: Deploy, database: Database, broker: KafkaServer) -> None:
    deployment = deploy(database, broker, broker.create_topic())
    relay = deployment.start()
    broker.stop()
    deployment.write("{}")
    relay.wait_for("stalled")
    relay.send(signal.SIGTERM)
    relay.wait_for("stopping", containing='"unsettled": 1')
    relay.send(signal.SIGINT)
    assert relay.wait(5) == 128 + signal.SIGINT
    relay.wait_for("left at once")
    broker.start()
    deployment.start()
    deployment.catch_up()
    assert assert_delivered(deployment).events == 1
