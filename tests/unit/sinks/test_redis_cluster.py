"""What a Redis Cluster goes with, and where it sends a client."""

from typing import Any

import pytest
from pydantic import ValidationError

from walrelay.sinks.redis.cluster import ClusterNodes, redirected
from walrelay.sinks.redis.settings import Address, RedisSettings

HERE = Address("redis-1", 6379, "relay", "secret", 0, True)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"url": "redis://orders", "sentinels": "redis://one"}, "cluster and sentinels exclude each other"),
        ({"url": "redis://one, redis://two/1"}, "a Redis Cluster has one database, 0"),
    ],
)
def test_a_cluster_has_neither_sentinels_nor_databases(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        RedisSettings.model_validate({"cluster": True, **settings})


@pytest.mark.parametrize(
    ("said", "host", "port"),
    [
        ("MOVED 3999 redis-2:6380", "redis-2", 6380),
        ("ASK 3999 ::1:6380", "::1", 6380),
        ("MOVED 3999 :6380", "redis-1", 6380),
    ],
)
def test_a_client_is_sent_to_a_node_as_the_same_user(said: str, host: str, port: int) -> None:
    assert redirected(said, HERE) == Address(host, port, "relay", "secret", 0, True)


def test_what_is_between_braces_chooses_the_hash_slot() -> None:
    there = HERE._replace(port=6380)
    cluster = ClusterNodes(RedisSettings.model_validate({"url": "redis://one", "cluster": True}), {12182: HERE})
    assert cluster.missing == 16_383
    assert cluster.master_of(b"foo") == cluster.master_of(b"{foo}.bar") == HERE
    cluster.moved(b"x{foo}", there)
    assert cluster.masters == [there]
