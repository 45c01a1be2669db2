"""A broker that is away, or full, is back-pressure for every kind of sink: the lead, the run and the window stay."""

from typing import Any

import pytest

from tests.acceptance.checking import assert_delivered
from tests.acceptance.conftest import Deploy, Measured
from tests.acceptance.deployment import Deployment, event_id
from tests.acceptance.relay_process import RelayProcess
from tests.acceptance.test_every_broker import BROKERS, place
from tests.acceptance.test_exactly_once import EXACTLY_ONCE
from tests.brokers import Broker
from tests.brokers.redis import RedisStream
from tests.servers.database import Database
from tests.servers.redis import RedisServer
from tests.servers.waiting import wait_until

__all__ = ["place"]  # a fixture

_ROWS = 10_000
_WINDOW = 2_000  # messages that may be on their way
_PATIENT: dict[str, dict[str, Any]] = {"sink": {"request_timeout": 5}, "source": {"pause_limit": 300}}
"""RabbitMQ's queues lose what comes while they start, without an answer."""


def but_slow(quick: str) -> list[Any]:
    """Every kind; one of them in the normal lane."""
    return [pytest.param(kind, marks=[] if kind == quick else pytest.mark.slow) for kind in BROKERS]


def leaders(database: Database) -> list[int]:
    """The processes of PostgreSQL that hold a lead in this database."""
    found = database.execute(
        "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted"
        " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
        " AND pid IN (SELECT pid FROM pg_stat_replication UNION SELECT pid FROM pg_stat_activity"
        " WHERE backend_type = 'walsender')"
    )
    return [pid for (pid,) in found]


def used_once(deployment: Deployment) -> None:
    """A quorum queue of RabbitMQ that is killed before anything is in it never answers again."""
    relay = deployment.start()
    deployment.write("0")
    deployment.catch_up(120)
    relay.stop()


def one_run(relay: RelayProcess) -> bool:
    """Whether it never ended one and began another."""
    return [len(relay.events(each)) for each in ("streaming", "retrying", "fatal")] == [1, 0, 0]


@pytest.mark.parametrize("place", but_slow("redis"), indirect=True)
def test_a_broker_that_is_away_at_the_start_costs_no_run(deploy: Deploy, database: Database, place: Broker) -> None:
    deployment = deploy(database, place, place.topic, **_PATIENT)
    used_once(deployment)
    place.kill()
    relay = deployment.start()
    deployment.write("1", "2")
    deployment.write("3", key="b")
    assert relay.wait_for("stalled")["why"], "the log does not say why"
    place.start()
    deployment.catch_up(120)
    assert one_run(relay)
    assert assert_delivered(deployment).events == 4


@pytest.mark.parametrize("place", but_slow("postgres"), indirect=True)
def test_a_broker_that_dies_in_a_large_transaction_repeats_its_window_at_most(
    deploy: Deploy, database: Database, place: Broker, measured: Measured
) -> None:
    deployment = deploy(database, place, place.topic, **_PATIENT)
    used_once(deployment)
    place.kill()
    relay = deployment.start()
    deployment.write_rows(_ROWS)
    relay.wait_for("stalled")
    place.start()
    relay.wait_for("resumed")
    place.kill()
    place.start()
    deployment.catch_up(120)
    assert one_run(relay)
    delivered = assert_delivered(deployment)
    measured("with a broker that died twice", delivered)
    assert delivered.events == _ROWS + 1
    assert delivered.duplicates <= 2 * _WINDOW


@pytest.mark.slow
def test_a_sink_that_cannot_begin_costs_no_lead(
    deploy: Deploy, database: Database, stoppable_redis: RedisServer
) -> None:
    stoppable_redis.start()
    place = RedisStream(stoppable_redis)
    deployment = deploy(database, place, place.topic, **EXACTLY_ONCE)
    place.kill()
    relay = deployment.launch()
    wait_until(lambda: leaders(database), 30, "the lead to be taken")
    (leader,) = leaders(database)
    deployment.write("1")
    relay.wait_for("retrying", containing="fence off")
    assert leaders(database) == [leader]
    place.start()
    relay.wait_for("streaming")
    deployment.catch_up()
    assert leaders(database) == [leader]
    assert assert_delivered(deployment).duplicates == 0


@pytest.mark.parametrize("place", but_slow("redis"), indirect=True)
def test_a_sink_whose_broker_is_away_holds_up_no_other(
    deploy: Deploy, database: Database, place: Broker, redis: RedisServer
) -> None:
    """Away at the start, and killed in the middle; the other sink gets each event once."""
    here = RedisStream(redis)
    sinks = {"eu": place.sink, "us": here.sink}
    routes = [{"name": "here", "when": {"aggregate_id": "us"}, "topic": here.topic, "sink": "us"}]
    routes.append({"name": "away", "topic": place.topic, "sink": "eu"})
    deployment = deploy(database, place, place.topic, sink=None, sinks=sinks, routes=routes)
    used_once(deployment)
    place.kill()
    relay = deployment.start()
    for number in range(1, 4):
        if number == 3:  # it had come back
            place.start()
            deployment.catch_up(120)
            place.kill()
        deployment.write("1", "2", key="eu")
        deployment.write("1", "2", "3", key="us")
        wait_until(lambda expected=3 * number: len(here.read_all()) == expected, 30, "the events of the other sink")  # type: ignore[misc]
    assert "eu: " in relay.wait_for("stalled")["why"]
    place.start()
    deployment.catch_up(120)
    assert one_run(relay)
    assert len(here.read_all()) == 9, "something came again"
    arrived = [(message.key, event_id(message)) for message in place.read_all()]
    assert len({*arrived}) == 7
