"""Exactly once into a Redis stream, whatever dies: each event is there once, and in order."""

import random
from functools import partial

import pytest

from tests.acceptance.checking import assert_delivered
from tests.acceptance.conftest import Deploy, Measured
from tests.acceptance.deployment import Deployment
from tests.acceptance.test_exactly_once import EXACTLY_ONCE, killed, stopped
from tests.acceptance.writing import Writers
from tests.brokers.redis import RedisStream, replicate
from tests.conftest import PostgresMaker, RedisMaker
from tests.servers.database import Database
from tests.servers.redis import RedisServer
from tests.servers.waiting import wait_until

ROWS = 40_000


@pytest.fixture
def place(stoppable_redis: RedisServer) -> RedisStream:
    stoppable_redis.start()
    return RedisStream(stoppable_redis)


def test_kills_under_load_lose_repeat_and_reorder_nothing(
    deploy: Deploy, database: Database, place: RedisStream, measured: Measured
) -> None:
    killed(deploy(database, place, place.topic, log={"level": "debug"}, **EXACTLY_ONCE), 4, measured)


@pytest.mark.chaos
def test_fifty_kills_under_load_lose_repeat_and_reorder_nothing(
    deploy: Deploy, database: Database, place: RedisStream, measured: Measured
) -> None:
    killed(deploy(database, place, place.topic, log={"level": "debug"}, **EXACTLY_ONCE), 50, measured)


def test_redis_killed_under_load_loses_repeats_and_reorders_nothing(
    deploy: Deploy, database: Database, place: RedisStream
) -> None:
    deployment = deploy(database, place, place.topic, **EXACTLY_ONCE)
    relay = deployment.start()
    with Writers(database, seed=41) as writers:
        for _ in range(2):
            writers.wait_for_more(200)
            place.kill()
            writers.wait_for_more(200)
            place.start()
            wait_until(partial(more_than, deployment, len(deployment.delivered())), 60, "the relay to go on")
        writers.wait_for_more(200)
    deployment.catch_up()
    assert assert_delivered(deployment, writers).duplicates == 0
    assert len(relay.events("streaming")) == 1, "the sink connects again, and the run goes on"


@pytest.mark.chaos
def test_postgres_crashes_under_load_lose_repeat_and_reorder_nothing(
    deploy: Deploy, private_postgres: PostgresMaker, place: RedisStream
) -> None:
    """A crash sets the slot back, and the relay dies with it; Redis has the position."""
    server = private_postgres()
    deployment = deploy(server.create_database(), place, place.topic, **EXACTLY_ONCE)
    deployment.start()
    with Writers(deployment.database, seed=42) as writers:
        for _ in range(4):
            writers.wait_for_more(300)
            server.stop("immediate")
            deployment.relays[-1].kill()
            server.start()
            deployment.start()
        writers.wait_for_more(300)
    deployment.catch_up()
    assert assert_delivered(deployment, writers).duplicates == 0


@pytest.mark.chaos
def test_a_transaction_larger_than_a_group_is_cut_and_resumed_where_it_was(
    deploy: Deploy, database: Database, place: RedisStream
) -> None:
    deployment = deploy(database, place, place.topic, **EXACTLY_ONCE)
    deployment.write_rows(ROWS)
    before = 0
    for _ in range(2):
        relay = deployment.start()
        before = wait_until(partial(more_than, deployment, before), 20, "a part of the transaction")
        relay.kill()
    assert before < ROWS, "all of it was there at once, so nothing was tested"
    deployment.start()
    deployment.catch_up()
    assert assert_delivered(deployment).duplicates == 0


def test_what_a_failover_lost_is_told(deploy: Deploy, database: Database, private_redis: RedisMaker) -> None:
    """The position and the messages are in one place, and so are lost together."""
    master, replica = private_redis(), private_redis()
    place = RedisStream(master)
    deployment = deploy(database, place, place.topic, sink={"url": f"{master.url}, {replica.url}"}, **EXACTLY_ONCE)
    with replica.client() as other:
        replicate(other, master)
        relay = deployment.start()
        deployment.write("1")
        deployment.catch_up()
        wait_until(lambda: other.xlen(place.topic) == 1, 20, "the replica to have it")
        other.replicaof("NO", "ONE")  # from now on it misses what the master takes
        deployment.write("2", "3")
        deployment.catch_up()
        relay.kill()
        master.kill()
        assert "something else moved it, or it was created again" in stopped(deployment)["error"]


def test_a_position_that_is_gone_is_told_and_nothing_that_comes_is_lost_or_repeated(
    deploy: Deploy, database: Database, place: RedisStream
) -> None:
    deployment = deploy(database, place, place.topic, **EXACTLY_ONCE)
    relay = deployment.start()
    deployment.write("1", "2")
    deployment.catch_up()
    with place.client() as client:
        client.flushall()
    for number in range(3, 20):
        deployment.write(str(number))
    deployment.catch_up()
    assert [message.value for message in deployment.delivered()] == [b"%d" % number for number in range(3, 20)]
    told = [entry for entry in relay.log if "the position that this relay kept is gone" in str(entry)]
    assert len(told) == 1


def test_what_redis_refuses_becomes_a_dead_letter_in_its_place(
    deploy: Deploy, database: Database, place: RedisStream
) -> None:
    rng = random.Random(44)
    deployment = deploy(database, place, place.topic, refusals={"policy": "dead_letter"}, **EXACTLY_ONCE)
    with place.client() as client:
        client.set("text", "no stream")
        relay = deployment.start()
        numbers = list(range(1, 101))
        wrong = sorted(rng.sample(numbers, 3))
        for number in numbers:
            deployment.write(str(number), topic="text" if number in wrong else None)
        deployment.catch_up()
        assert relay.events("fatal") == []
        client.delete("text")
    values = [int(message.value or b"") for message in deployment.delivered()]
    assert values == [number for number in numbers if number not in wrong]
    assert len(deployment.command("dlq", "export").splitlines()) == len(wrong)


def more_than(deployment: Deployment, before: int) -> int:
    """How many messages there are, once those are more."""
    count = len(deployment.delivered())
    return count if count > before else 0
