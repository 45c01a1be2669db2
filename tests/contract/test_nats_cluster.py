"""A cluster of NATS whose leaders are killed: what is stored has no gap and keeps its order."""

from collections.abc import Callable
from contextlib import closing
from time import monotonic
from typing import Any, TypeVar

import pytest
from nats.errors import Error

from tests.brokers.nats import request, stored
from tests.servers.nats import NatsServer
from tests.servers.waiting import wait_until
from walrelay.errors import Retryable
from walrelay.model import Message, Refusal
from walrelay.publish import Sink
from walrelay.sinks.nats.plugin import plugin

pytestmark = pytest.mark.slow

T = TypeVar("T")
KEYS = 20
MANY = 3000


@pytest.fixture
def cluster(nats_nodes: list[NatsServer]) -> list[NatsServer]:
    """One whose nodes run and have a leader."""
    for each in nats_nodes:
        each.start()
    elected(lambda: info(nats_nodes, "INFO"))
    return nats_nodes


def elected(found: Callable[[], T | None]) -> T:
    """What is there as soon as there is a leader; before that a request is an error, or has no answer."""
    there = wait_until(found, 60, "the nodes to elect a leader", ignoring=(AssertionError, TimeoutError, Error))
    assert there is not None
    return there


def info(nodes: list[NatsServer], what: str, **members: Any) -> dict[str, Any]:
    """JetStream's answer by way of the first node that runs."""
    return request(next(each for each in nodes if each.running).url, what, patience=1, **members)


def leader(nodes: list[NatsServer], stream: str) -> NatsServer:
    def found() -> NatsServer | None:
        name = info(nodes, f"STREAM.INFO.{stream}")["cluster"].get("leader")
        return next((each for each in nodes if name == str(each.port)), None)

    return elected(found)


def numbered(stream: str, number: int) -> Message:
    key = f"k{number % KEYS}".encode()
    headers: list[tuple[str, bytes | None]] = [("id", b"%d" % number), ("position", b"0/1:%d" % number)]
    return Message(stream, key, b"%d" % number, headers, 0)


def publish_all(sink: Sink, stream: str, *, kill: NatsServer | None) -> bool:
    """Whether the sink lived until everything was durable. `kill`: after 1,000 messages."""
    settled = number = 0
    deadline = monotonic() + 60
    try:
        while settled < MANY:
            assert monotonic() < deadline, f"{settled} of {MANY}"
            while number < MANY and sink.publish(numbered(stream, number), 0):
                number += 1
                if number == 1000 and kill is not None:
                    kill.kill()
            for each in sink.receipts(0.05):
                assert not isinstance(each, Refusal), each
                settled += each.messages
    except Retryable:
        return False
    return True


@pytest.mark.parametrize("ordering", ["chained", pytest.param("per_key", marks=pytest.mark.chaos)])
def test_when_the_leader_of_a_stream_is_killed_nothing_overtakes_what_it_lost(
    cluster: list[NatsServer], ordering: str
) -> None:
    elected(lambda: info(cluster, f"STREAM.CREATE.{ordering}", name=ordering, subjects=[ordering], num_replicas=3))
    victim = leader(cluster, ordering)
    others = [each for each in cluster if each is not victim]
    settings = {"url": ",".join(each.url for each in others), "ordering": ordering, "stream": ordering}
    memory = plugin.memory()

    def run(kill: NatsServer | None = None) -> bool:
        made = plugin.settings.model_validate({**settings, "max_in_flight": 500, "request_timeout": 2})
        with closing(plugin.open(made, memory)) as sink:
            return publish_all(sink, ordering, kill=kill)

    if not run(victim):
        wait_until(run, 90, "the cluster to take everything", interval=0.2)
    victim.start()  # a consumer may be placed there
    arrived = [int(data) for _, data, _ in elected(lambda: stored(others[0].url, ordering))]
    first = list(dict.fromkeys(arrived))
    assert sorted(first) == [*range(MANY)]
    for key in range(KEYS):
        assert [number for number in first if number % KEYS == key] == [*range(key, MANY, KEYS)]
    if ordering == "chained":
        assert arrived == [*range(MANY)], "not each message once and in order"


def test_a_stream_without_a_leader_is_waited_for(cluster: list[NatsServer]) -> None:
    """Nobody listens on its subject then, as if there were no stream."""
    elected(lambda: info(cluster, "STREAM.CREATE.alone", name="alone", subjects=["alone"], num_replicas=1))
    victim = leader(cluster, "alone")
    victim.kill()
    settings = plugin.settings(url=",".join(each.url for each in cluster if each is not victim))

    expected = "stream 'alone' takes no messages for 'alone' now: it has no leader"
    with closing(plugin.open(settings, plugin.memory())) as sink:
        assert sink.publish(numbered("alone", 0), 0)
        wait_until(lambda: not [*sink.receipts(0.05)] and expected in sink.trouble(), 90, "the sink to say why")
