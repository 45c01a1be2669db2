"""A Redis Cluster whose masters die: its replicas take over, and nothing is lost that was waited for."""

from functools import partial
from typing import Any

import pytest

from tests.acceptance.checking import Delivery, assert_delivered
from tests.acceptance.conftest import Deploy, Measured
from tests.acceptance.test_exactly_once import EXACTLY_ONCE
from tests.acceptance.test_exactly_once_redis import more_than
from tests.acceptance.writing import Writers
from tests.brokers.redis_cluster import RedisClusterStreams
from tests.servers.database import Database
from tests.servers.redis_cluster import RedisCluster
from tests.servers.waiting import wait_until

pytestmark = pytest.mark.slow

TAGGED = {"stream": "{{relay}}:{topic}-{key}", "positions_key": "{relay}:positions"}


def test_a_failover_under_load_loses_and_reorders_nothing(
    deploy: Deploy, database: Database, failing_redis_cluster: RedisCluster, measured: Measured
) -> None:
    place = RedisClusterStreams(failing_redis_cluster)
    delivered = masters_die(deploy, database, place, f"{place.topic}-key-0")
    measured("after 2 failovers of a Redis Cluster", delivered)


def test_a_failover_under_load_loses_repeats_and_reorders_nothing(
    deploy: Deploy, database: Database, failing_redis_cluster: RedisCluster
) -> None:
    place = RedisClusterStreams(failing_redis_cluster, **TAGGED)
    assert masters_die(deploy, database, place, "{relay}", **EXACTLY_ONCE).duplicates == 0


def masters_die(deploy: Deploy, database: Database, place: RedisClusterStreams, key: str, **settings: Any) -> Delivery:
    """The master of that key, twice; each comes back as the replica of its successor."""
    deployment = deploy(database, place, place.topic, sink={"wait_replicas": 1}, **settings)
    relay = deployment.start()
    with Writers(database, seed=51, pause=0.02) as writers:
        for _ in range(2):
            writers.wait_for_more(200)
            dying = place.server.master_of(key)
            replica = place.server.replica_of(dying)
            dying.kill()
            wait_until(lambda replica=replica: replica.is_master, 60, "the replica to take over")  # type: ignore[misc]
            writers.wait_for_more(200)
            dying.start()
            place.server.wait_until_well()
            wait_until(partial(more_than, deployment, len(deployment.delivered())), 60, "the relay to go on")
        writers.wait_for_more(200)
    deployment.catch_up()
    assert relay.events("fatal") == []
    return assert_delivered(deployment, writers)
