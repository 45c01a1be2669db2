"""Redis Cluster: the order of a stream while its hash slot moves and when its master dies, and what the doctor says."""

import os
import signal
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from tests.brokers.redis_cluster import RedisClusterCase
from tests.contract.test_redis_exactly_once import begun, position, transaction
from tests.servers.ports import LOOPBACK, free_port
from tests.servers.redis import RedisServer
from tests.servers.redis_cluster import RedisCluster
from tests.servers.waiting import wait_until
from walrelay.errors import Fatal
from walrelay.model import Message
from walrelay.sinks.redis.plugin import plugin
from walrelay.testing import Relaying, check_arrived, complains, failure, message, numbers, publish, refusal, settle

pytestmark = pytest.mark.slow

KEYS = "abcdefgh"
TAGGED: dict[str, Any] = {"stream": "{{relay}}:{topic}-{key}", "positions_key": "{relay}:positions"}


@pytest.fixture
def case(stoppable_redis_cluster: RedisCluster) -> Iterator[RedisClusterCase]:
    stoppable_redis_cluster.start()
    with closing(RedisClusterCase(stoppable_redis_cluster)) as made:
        yield made


@pytest.fixture
def failing(failing_redis_cluster: RedisCluster) -> Iterator[RedisClusterCase]:
    with closing(RedisClusterCase(failing_redis_cluster)) as made:
        yield made


def some(case: RedisClusterCase, count: int) -> list[Message]:
    return [message(case, number, key=KEYS[number % len(KEYS)]) for number in range(count)]


def go_on(relaying: Relaying, more: int) -> None:
    wanted = len(relaying.durable) + more
    relaying.go_on(lambda: len(relaying.durable) >= wanted, "receipts")


def test_the_order_of_a_stream_is_kept_while_its_hash_slot_moves_and_the_run_goes_on(case: RedisClusterCase) -> None:
    messages = some(case, 6_000)
    masters = {case.server.master_of(case.stream(key)).port for key in KEYS}
    assert len(masters) > 1, "all streams are in one place"
    with closing(Relaying(lambda: case.open(room=200), messages)) as relaying:
        for key in ("a", "b", "a"):
            move = case.server.move(case.stream(key))
            go_on(relaying, 300)
            move.begin()
            go_on(relaying, 300)
            move.move_keys()
            go_on(relaying, 300)  # Redis says ASK
            move.end()
            go_on(relaying, 300)  # and now MOVED
            assert case.server.master_of(case.stream(key)) is move.target
        relaying.go_on(lambda: relaying.complete, "all receipts")
        assert relaying.failures == []
    assert sorted(each for key in KEYS for each in numbers(case.arrived(), key)) == [*range(6_000)]
    check_arrived(relaying, case.arrived(), messages)


def test_a_stream_that_begins_while_its_hash_slot_moves_is_made_at_its_new_place(case: RedisClusterCase) -> None:
    move = case.server.move(case.stream("a"))
    move.begin()
    with closing(case.open()) as sink:
        settle(sink, 10, publish(sink, case, range(10)))
        assert move.target.ask("CLUSTER", "COUNTKEYSINSLOT", move.slot) == 1
        move.move_keys()
        move.end()
        settle(sink, 10, publish(sink, case, range(10, 20)))
    assert numbers(case.arrived()) == [*range(20)]


def test_a_master_that_dies_loses_nothing_that_its_replica_was_waited_for(failing: RedisClusterCase) -> None:
    messages = some(failing, 4_000)
    with closing(Relaying(lambda: failing.open(room=200, wait_replicas=1), messages)) as relaying:
        go_on(relaying, 500)
        dying = failing.server.master_of(failing.stream("a"))
        replica = failing.server.replica_of(dying)
        dying.kill()
        relaying.go_on(lambda: replica.is_master, "the replica to take over")
        relaying.go_on(lambda: "of Redis's replicas 0 have" in relaying.trouble, "the new master, which has no replica")
        dying.start()
        relaying.go_on(lambda: relaying.complete, "all receipts", 120)
    failing.server.wait_until_well()
    check_arrived(relaying, failing.arrived(), messages)


@pytest.mark.parametrize("waits", [True, False], ids=["awaited", "not awaited"])
def test_what_a_replica_lacks_is_lost_with_its_master_unless_it_is_waited_for(
    failing: RedisClusterCase, *, waits: bool
) -> None:
    """Redis answers before its replicas have a message."""
    master = failing.server.master_of(failing.stream("a"))
    replica = failing.server.replica_of(master)
    with closing(failing.open(wait_replicas=int(waits))) as sink:
        settle(sink, 10, publish(sink, failing, range(10)))
        with replica.client() as client:
            wait_until(lambda: client.info("replication")["slave_repl_offset"] == offset(master), 20, "the replica")
        os.kill(replica.pid, signal.SIGSTOP)
        master.ask("CLIENT", "KILL", "TYPE", "replica")
        told = publish(sink, failing, range(10, 20))
        if waits:
            wait_until(lambda: not [*sink.receipts(0.05)] and "of Redis's replicas 0 have" in sink.trouble(), 20, "it")
        else:
            settle(sink, 10, told)
        master.kill()
        os.kill(replica.pid, signal.SIGCONT)
        wait_until(lambda: replica.is_master, 60, "the replica to take over")
    failing.server.wait_until_well()
    assert numbers(failing.arrived()) == [*range(10)]


def offset(master: Any) -> int:
    return int(master.ask("INFO", "replication").get("master_repl_offset"))


def test_nothing_of_a_stream_overtakes_what_redis_does_not_take(case: RedisClusterCase) -> None:
    """Other streams may be ahead: what they got is there again after it."""
    case.server.master_of(case.stream("c")).ask("SET", case.stream("c"), "no stream")
    offered = some(case, 80)
    with closing(case.open()) as sink:
        for each in offered:
            assert sink.publish(each, 0)
        told = refusal(sink)
        assert (told.message, told.error, told.scope, told.ends) == (offered[2], "unknown_topic", "topic", True)
        assert told.reason == f"the key {case.stream('c')!r} holds no stream"
        assert not sink.publish(offered[0], 0)
    case.server.master_of(case.stream("c")).ask("DEL", case.stream("c"))
    for key in KEYS:
        expected = [*range(KEYS.index(key), 80, len(KEYS))]
        assert numbers(case.arrived(), key) == ([] if key == "c" else expected)


def test_a_key_keeps_its_order_where_its_messages_go_to_several_streams(case: RedisClusterCase) -> None:
    case.server.master_of("text").ask("SET", "text", "no stream")

    def to(stream: str, number: int) -> Message:
        made = message(case, number)
        return made._replace(headers=[*made.headers, ("to", stream.encode())])

    with closing(case.open(stream="{header.to}")) as sink:
        for number, stream in enumerate((case.stream("x"), "text", case.stream("x"), case.stream("y"))):
            assert sink.publish(to(stream, number), 0)
        assert refusal(sink).message.value == b"1"
    assert numbers(case.arrived()) == [0]


def test_exactly_once_is_had_where_streams_and_position_share_a_hash_slot(case: RedisClusterCase) -> None:
    with closing(begun(case, **TAGGED)) as sink:
        transaction(sink, case, 0, 1, end=10)
        settle(sink, 2)
        move = case.server.move("{relay}")
        move.begin()
        move.move_keys()
        transaction(sink, case, 2, end=20)
        wait_until(lambda: not [*sink.receipts(0.05)] and "is moving the hash slot" in sink.trouble(), 20, "the sink")
        move.end()
        settle(sink, 1)
    with closing(begun(case, **TAGGED)) as after:
        assert after.last() == position(20)
        with closing(begun(case, **TAGGED)) as latest:
            assert latest.last() == position(20)
            transaction(after, case, 3, end=30)
            assert failure(after) == "a later run of this slot publishes now, and this one may not any more"
    assert numbers(case.arrived()) == [0, 1, 2]


def test_exactly_once_refuses_a_stream_of_another_hash_slot(case: RedisClusterCase) -> None:
    with closing(begun(case)) as sink:
        transaction(sink, case, 0, end=10)
        told = refusal(sink)
        assert (told.error, told.ends) == ("unroutable", True)
        assert told.reason.endswith(" have different hash slots")
    (warning,) = plugin_positions(case)
    assert warning.verdict == "warning"
    (fine,) = plugin_positions(case, stream="{{relay}}:{topic}", positions_key="{relay}:positions")
    assert fine.verdict == "ok"


def plugin_positions(case: RedisClusterCase, **settings: Any) -> list[Any]:
    assert plugin.exactly_once is not None
    return [*plugin.exactly_once.examine_positions(case.settings(**settings))]


def test_any_node_that_answers_is_enough_and_streams_are_made_where_they_belong(case: RedisClusterCase) -> None:
    nobody = f"redis://{LOOPBACK}:{free_port()}"
    known: dict[str, Any] = {"url": f"{nobody}, {case.server.nodes[2].url}"}
    assert plugin.make_topics is not None
    topics = [f"{case.topic}-{key}" for key in KEYS]
    settings = case.settings(stream="{topic}", create_streams=False, **known)
    assert [*plugin.make_topics(settings, topics, 1, None)] == [(topic, True) for topic in topics]
    with closing(case.open(create_streams=False, **known)) as sink:
        for each in some(case, 80):
            assert sink.publish(each, 0)
        settle(sink, 80)
    assert sorted(numbers(case.arrived(), key)[0] for key in KEYS) == [*range(len(KEYS))]
    with closing(case.open(url=nobody)) as sink:
        complains(sink, "the Redis Cluster cannot be reached: ")


def test_a_user_needs_to_ask_who_has_which_slot(case: RedisClusterCase) -> None:
    url = f"redis://relay:secret@{LOOPBACK}:{case.server.port}"
    grant(case, "reset", "on", ">secret", "~*", "+eval", "+xadd")
    with closing(case.open(url=url)) as sink:
        assert "which node has which hash slot: NOPERM" in failure(sink, Fatal)
    grant(case, "+cluster|slots", "+asking")
    move = case.server.move(case.stream("a"))
    with closing(case.open(url=url)) as sink:
        settle(sink, 10, publish(sink, case, range(10)))
        move.begin()
        move.move_keys()
        settle(sink, 10, publish(sink, case, range(10, 20)))
        move.end()
        grant(case, "resetkeys")
        assert sink.publish(message(case, 20), 0)
        told = refusal(sink)
        assert (told.error, told.scope) == ("not_authorized", "topic")
        assert told.hint.endswith(" +eval +xadd +info +config|get +cluster|slots +asking")
    assert numbers(case.arrived()) == [*range(20)]


def grant(case: RedisClusterCase, *rights: str) -> None:
    for node in case.server.nodes:
        node.ask("ACL", "SETUSER", "relay", *rights)


def test_the_doctor_asks_every_master(failing: RedisClusterCase) -> None:
    def details(verdict: str, **settings: Any) -> list[str]:
        found = plugin.examine(failing.settings(stream="{topic}", **settings), ["orders"])
        return [each.detail for each in found if each.verdict == verdict]

    ports = [node.port for node in failing.server.nodes if node.is_master]
    for port in ports:
        assert any(each.endswith(f" at {LOOPBACK}:{port}") for each in details("ok"))
        assert f"{LOOPBACK}:{port}: Redis writes no append-only file: what was confirmed is lost when it dies" in (
            details("warning")
        )
    assert details("problem") == []
    short = "Redis has 1 replicas, and sink.wait_replicas is 2: nothing becomes durable"
    assert sorted(details("problem", wait_replicas=2)) == sorted(f"{LOOPBACK}:{port}: {short}" for port in ports)
    master = failing.server.master_of("orders")
    failing.server.replica_of(master).kill()
    alone = f"{LOOPBACK}:{master.port} has no replica: the cluster takes nothing, or less, when it dies"
    wait_until(lambda: alone in details("warning"), 20, "the master to miss it")
    master.kill()
    away = f"a master of the Redis Cluster is away: {LOOPBACK}:{master.port}: "
    assert any(each.startswith(away) for each in details("problem"))


def test_a_server_that_is_no_node_is_refused(redis: RedisServer, case: RedisClusterCase) -> None:
    with closing(case.open(url=redis.url)) as sink:
        assert failure(sink, Fatal).endswith(" is no node of a Redis Cluster, and sink.cluster is set")
