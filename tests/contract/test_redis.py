"""What Redis's answers mean, what its servers are to each other, and which settings do what."""

from collections.abc import Iterator
from contextlib import closing
from time import monotonic
from typing import Any

import pytest

from tests.brokers.redis import RedisCase, replicate, user
from tests.conftest import RedisMaker
from tests.servers.ports import LOOPBACK, free_port
from tests.servers.redis import RedisSentinel, RedisServer
from tests.servers.waiting import wait_until
from walrelay.errors import Fatal
from walrelay.model import Message
from walrelay.sinks.redis.plugin import plugin
from walrelay.testing import answer, complains, failure, message, numbers, publish, receipts, refusal, settle


@pytest.fixture
def case(stoppable_redis: RedisServer) -> Iterator[RedisCase]:
    stoppable_redis.start()
    with closing(RedisCase(stoppable_redis)) as made:
        yield made


def test_nothing_overtakes_an_entry_that_redis_does_not_take(case: RedisCase) -> None:
    """Of a pipeline Redis would take what follows, whatever stream it is for."""
    case.client.set("text", "no stream")
    lost = message(case, 300, key="b")._replace(topic="text")
    offered = [*(message(case, number) for number in range(300)), lost, *(message(case, n) for n in range(301, 900))]
    with closing(case.open()) as sink:
        taken = [each for each in offered if sink.publish(each, 0)]  # it may be refused before all are offered
        assert len(taken) > 301
        told = refusal(sink)
        assert (told.message, told.error, told.scope, told.ends) == (lost, "unknown_topic", "topic", True)
        assert told.reason == "the key 'text' holds no stream"
        assert not sink.publish(offered[-1], 0)
    assert numbers(case.arrived()) == [*range(300)]
    with closing(case.open()) as careful:
        assert careful.publish(lost, 0)
        assert not careful.publish(offered[-1], 0), "taken before the one ahead of it was decided"
        assert not refusal(careful).ends
        assert careful.publish(offered[-1], 0)
        settle(careful, 1)
    assert numbers(case.arrived()) == [*range(300), 899]


def test_a_stream_that_does_not_exist_is_made_or_its_messages_are_refused(case: RedisCase) -> None:
    with closing(case.open(create_streams=False)) as sink:
        assert sink.publish(message(case, 0), 0)
        told = refusal(sink)
        assert (told.reason, told.error, told.scope) == (f"there is no stream {case.topic!r}", "unknown_topic", "topic")
        assert not case.client.exists(case.topic)
        assert plugin.make_topics is not None
        settings = case.settings(create_streams=False)
        assert [*plugin.make_topics(settings, [case.topic], 1, None)] == [(case.topic, True)]
        assert [*plugin.make_topics(settings, [case.topic], 1, None)] == [(case.topic, False)]
        settle(sink, 1, publish(sink, case, range(1)))
    with closing(case.open(stream="other-{topic}")) as sink:
        settle(sink, 1, publish(sink, case, range(1)))
    assert numbers(case.arrived()) == numbers(case.arrived(f"other-{case.topic}")) == [0]


def test_a_stream_that_the_user_may_not_write_to_is_refused_and_others_of_the_group_are_not_blamed(
    case: RedisCase,
) -> None:
    url = user(case, f"~{case.topic}", "+eval", "+xadd")
    forbidden = message(case, 3)._replace(topic="forbidden")
    with closing(case.open(url=url)) as sink:
        for each in (message(case, 0), message(case, 1), message(case, 2), forbidden):
            assert sink.publish(each, 0)
        told = refusal(sink)
        assert (told.message, told.error, told.scope) == (forbidden, "not_authorized", "topic")
        assert told.hint == "ACL SETUSER relay ~forbidden +eval +xadd +info +config|get"
    assert numbers(case.arrived()) == [0, 1, 2]


@pytest.mark.parametrize("rights", [["+xadd"], ["+eval"]], ids=["no scripts", "no entries"])
def test_a_user_that_may_publish_nothing_is_a_refusal_of_all_there_is(case: RedisCase, rights: list[str]) -> None:
    with closing(case.open(url=user(case, "~*", *rights))) as sink:
        assert sink.publish(message(case, 0), 0)
        told = refusal(sink)
        assert (told.error, told.scope) == ("not_authorized", "sink")
        assert told.hint.startswith("ACL SETUSER relay ")


@pytest.mark.parametrize("secret", ["relay:wrong", "nobody:secret"])
def test_a_user_that_is_not_let_in_is_waited_for_and_said(case: RedisCase, secret: str) -> None:
    user(case, "~*", "+@all")
    with closing(case.open(url=case.server.url.replace("//", f"//{secret}@"))) as sink:
        assert sink.publish(message(case, 0), 0)
        complains(sink, "invalid username-password pair")


@pytest.mark.parametrize(
    ("name", "value", "again", "said"),
    [
        ("maxmemory", "1", "0", "OOM command not allowed when used memory > 'maxmemory'"),
        ("min-replicas-to-write", "1", "0", "NOREPLICAS Not enough good replicas to write"),
    ],
)
def test_what_redis_takes_nothing_for_is_waited_for(
    case: RedisCase, name: str, value: str, again: str, said: str
) -> None:
    with closing(case.open()) as sink:
        settle(sink, 10, publish(sink, case, range(10)))
        case.client.config_set(name, value)
        try:
            for number in range(10, 200):
                sink.publish(message(case, number), 0)
            complains(sink, f"Redis takes nothing now: {said}")
            assert numbers(case.arrived()) == [*range(10)]
        finally:
            case.client.config_set(name, again)
        settle(sink, 190)
        assert sink.trouble() == ""
    assert numbers(case.arrived()) == [*range(200)]


def test_more_messages_than_memory_has_room_for_get_through_once(case: RedisCase) -> None:
    client, taken = case.client, list[int]()
    with closing(case.open()) as sink:
        settle(sink, 1, publish(sink, case, range(1)))
        client.config_set("maxmemory", str(client.info("memory")["used_memory"] + 300_000))
        try:
            for number in range(1, 400):
                assert sink.publish(message(case, number, size=5_000), 0)
            complains(sink, "Redis takes nothing now: OOM")
            deadline = monotonic() + 60
            while len(taken) < 400:
                assert monotonic() < deadline, f"{len(taken)} of 400 arrived: {sink.trouble()}"
                receipts(sink, 0.02)
                for id_, fields in entries_of(client, case.topic):
                    taken.append(int(fields[b"payload"].lstrip(b"x")))
                    client.xdel(case.topic, id_)
        finally:
            client.config_set("maxmemory", "0")
    assert taken == [*range(400)], "lost, repeated or out of order"


def entries_of(client: Any, stream: str) -> list[tuple[bytes, dict[bytes, bytes]]]:
    """The first ten."""
    found: list[tuple[bytes, dict[bytes, bytes]]] = client.xrange(stream, count=10)
    return found


def test_a_master_that_becomes_a_replica_is_left_for_the_new_one(
    private_redis: RedisMaker,
) -> None:
    first, second = private_redis(), private_redis()
    with closing(RedisCase(first)) as case, second.client() as other:
        addresses = f"{second.url}, {first.url}"
        replicate(other, first)
        with closing(case.open(url=addresses, wait_replicas=1)) as sink:
            settle(sink, 10, publish(sink, case, range(10)))
            other.replicaof("NO", "ONE")
            replicate(case.client, second)
            for number in range(10, 20):
                sink.publish(message(case, number), 0)
            settle(sink, 10)
        case.client, after = other, case.client
        assert numbers(case.arrived()) == [*range(20)]
        after.close()


def test_durable_is_what_the_replicas_have(private_redis: RedisMaker) -> None:
    master, replica = private_redis(), private_redis()
    with closing(RedisCase(master)) as case, replica.client() as other:
        replicate(other, master)
        with closing(case.open(wait_replicas=1)) as sink:
            settle(sink, 10, publish(sink, case, range(10)))
            replica.kill()
            assert sink.publish(message(case, 10), 0)
            complains(sink, "of Redis's replicas 0 have what was published last, and 1 should")
            replica.start()
            replicate(other, master)
            settle(sink, 1)
            assert sink.trouble() == ""
        assert numbers(case.arrived()) == [*range(11)]


def test_sentinel_says_who_the_master_is(private_redis: RedisMaker) -> None:
    master, replica = private_redis(), private_redis()
    with closing(RedisCase(master)) as case, replica.client() as other:
        replicate(other, master)
        sentinel = private_redis(master, "orders", kind=RedisSentinel)
        nobody = f"redis://{LOOPBACK}:{free_port()}"
        of_sentinels: dict[str, Any] = {"url": "redis://orders", "sentinels": f"{nobody}, {sentinel.url}"}
        with closing(case.open(**of_sentinels)) as sink:
            settle(sink, 10, publish(sink, case, range(10)))
            with sentinel.client() as asked:
                wait_until(lambda: asked.sentinel_slaves("orders"), 20, "the sentinel to know the replica")
            wait_until(lambda: other.xlen(case.topic) == 10, 20, "the replica to have it")
            master.kill()
            assert sink.publish(message(case, 10), 0)
            complains(sink)
            settle(sink, 1)
        case.client.close()
        case.client = replica.client()
        assert numbers(case.arrived()) == [*range(11)]
        with closing(case.open(**of_sentinels | {"url": "redis://nothing"})) as sink:
            complains(sink, "knows no master 'nothing'")


def test_a_node_of_a_cluster_is_refused(private_redis: RedisMaker) -> None:
    with closing(RedisCase(private_redis("--cluster-enabled", "yes"))) as case, closing(case.open()) as sink:
        assert failure(sink, Fatal).endswith(" is a node of a Redis Cluster, and sink.cluster is not set")


def test_what_redis_takes_no_field_of_is_refused_before_it_is_sent(case: RedisCase) -> None:
    """Redis would close the connection, for ever."""
    case.client.config_set("proto-max-bulk-len", 2**20)
    try:
        with closing(case.open()) as sink:
            large = message(case, 0, size=2**20 + 1)
            assert sink.publish(large, 0)  # nobody knows yet
            told = answer(sink)
            assert told is not None
            assert (told.message, told.error, told.ends) == (large, "serialization", False)
            assert told.reason == "it has 1048577 bytes in a field, and Redis takes 1048576 (proto-max-bulk-len)"
            settle(sink, 1, publish(sink, case, range(1, 2), size=2**20))
            assert sink.publish(large, 0)
            assert answer(sink) is not None
    finally:
        case.client.config_set("proto-max-bulk-len", 512 * 2**20)
    assert numbers(case.arrived()) == [1]


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ([("a", None)], "the header 'a' is null, and a field of Redis cannot be"),
        ([("payload", b"1")], "the header 'payload' has the name of the field for the message's own"),
        ([("n" * 16_385, b"1")], "the header 'nnnnnnnnnnnnnnnnnnnn'... has a name of 16385 characters"),
        ([(f"{number}", b"1") for number in range(3_900)], "3902 headers are more than 3900"),
    ],
)
def test_headers_that_do_not_fit_are_refused(
    case: RedisCase, headers: list[tuple[str, bytes | None]], reason: str
) -> None:
    with closing(case.open()) as sink:
        assert sink.publish(with_headers(message(case, 0), *headers), 0)
        told = refusal(sink)
        assert (told.reason, told.error, told.ends) == (reason, "serialization", False)


def test_what_a_message_does_not_have_is_no_field(case: RedisCase) -> None:
    most = with_headers(message(case, 0), *((f"{number}", b"1") for number in range(3_898)))
    with closing(case.open()) as sink:
        for each in (message(case, 0)._replace(key=None), message(case, 0)._replace(value=None), most):
            assert sink.publish(each, 0)
        settle(sink, 3)
    no_key, no_value, all_of_it = case.arrived()
    assert (no_key.key, no_key.value, no_value.key, no_value.value) == (None, b"0", b"a", None)
    assert all_of_it.headers == most.headers


@pytest.mark.parametrize("limit", [{"max_entries": 100}, {"max_age": 0.001}])
def test_a_stream_is_trimmed_by_its_size_or_age(case: RedisCase, limit: dict[str, Any]) -> None:
    with closing(case.open(**limit)) as sink:
        for first in (0, 1000):
            settle(sink, 1000, publish(sink, case, range(first, first + 1000)))
    kept = numbers(case.arrived())
    assert 0 < len(kept) < 1000
    assert kept == [*range(2000 - len(kept), 2000)]


def test_the_doctor_says_what_redis_may_lose(private_redis: RedisMaker) -> None:
    with closing(RedisCase(private_redis("--maxmemory-policy", "allkeys-lru"))) as case:
        case.client.set("text", "no stream")
        case.client.xadd("there", {"a": "1"})
        said = [each.detail for each in plugin.examine(case.settings(), ["there", "new", "text", "with-*"])]
        assert said[0].startswith("connected to Redis ")
        assert said[1:] == [
            "Redis writes no append-only file: what was confirmed is lost when it dies",
            "maxmemory-policy lets Redis throw away whole streams",
            "the stream 'there' is there",
            "the stream 'new' will be made by its first message",
            "the key 'text' holds a string, no stream",
        ]
        case.client.config_set("maxmemory-policy", "noeviction")
        case.client.config_set("appendonly", "yes")
        settings = case.settings(create_streams=False, wait_replicas=2)
        problems = [each.detail for each in plugin.examine(settings, ["new"]) if each.verdict == "problem"]
        assert problems == [
            "Redis has 0 replicas, and sink.wait_replicas is 2: nothing becomes durable",
            "the stream 'new' does not exist",
        ]
        case.server.kill()
        (away,) = plugin.examine(case.settings(), ["new"])
        assert (away.verdict, away.fix) == ("problem", "Correct sink.url, or start Redis.")
        case.server.start()


@pytest.mark.parametrize("writes", ["no", "yes"])
def test_the_doctor_calls_unknown_what_a_managed_redis_does_not_tell(private_redis: RedisMaker, writes: str) -> None:
    server = private_redis("--rename-command", "CONFIG", "", "--appendonly", writes)
    with closing(RedisCase(server)) as case:
        said = [(each.verdict, each.detail) for each in plugin.examine(case.settings(), [])][1:]
    if writes == "no":
        assert said == [("warning", "Redis writes no append-only file: what was confirmed is lost when it dies")]
    else:
        ((verdict, detail),) = said
        assert verdict == "warning"
        assert detail.startswith("appendfsync cannot be asked for: how much of what was confirmed is lost")


def test_a_stream_at_its_last_id_is_refused_as_a_stream(case: RedisCase) -> None:
    case.client.xadd(case.topic, {"a": "1"}, id=f"{2**64 - 1}-{2**64 - 1}")
    with closing(case.open()) as sink:
        assert sink.publish(message(case, 1), 0)
        told = refusal(sink)
    assert (told.error, told.scope) == ("refused", "topic")
    assert told.hint.startswith("The stream's last id is the largest there is")


def with_headers(made: Message, *more: tuple[str, bytes | None]) -> Message:
    return made._replace(headers=[*made.headers, *more])
