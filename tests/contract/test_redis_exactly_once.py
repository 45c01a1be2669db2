"""What exactly once rests on in Redis: a group and its position are there or not, and one sink of a slot publishes."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from tests.brokers.redis import RedisCase, replicate, user
from tests.brokers.redis_cluster import RedisClusterCase
from tests.conftest import RedisMaker
from tests.servers.redis import RedisServer
from tests.servers.waiting import wait_until
from walrelay.errors import Fatal, Retryable
from walrelay.lsn import LSN
from walrelay.model import Counting, Receipt, RelayPosition, System
from walrelay.publish.contract import ExactlyOnceSink
from walrelay.sinks.redis.plugin import plugin
from walrelay.testing import failure, message, numbers, refusal, settle

HERE = System("7000000000000000001", 1)
COUNTING = Counting("pgoutput", "walrelay", "outbox", None)
KEY = f"walrelay:positions:{HERE.identifier}/relay"


@pytest.fixture
def case(stoppable_redis: RedisServer) -> Iterator[RedisCase]:
    stoppable_redis.start()
    with closing(RedisCase(stoppable_redis)) as made:
        yield made


def begun(case: RedisCase | RedisClusterCase, **settings: Any) -> ExactlyOnceSink:
    """A sink that may publish."""
    assert plugin.exactly_once is not None
    made = case.settings(**settings)
    sink = plugin.exactly_once.open(made, case.memory, HERE, "relay", COUNTING)
    try:
        while not sink.fence():
            pass
    except BaseException:
        sink.close()
        raise
    return sink


def transaction(sink: ExactlyOnceSink, case: RedisCase | RedisClusterCase, *numbered: int, end: int) -> None:
    for number in numbered:
        assert sink.publish(message(case, number), end)
    sink.mark(LSN(end))


def last(case: RedisCase) -> RelayPosition | None:
    """What the next run finds."""
    with closing(begun(case)) as sink:
        return sink.last()


def position(lsn: int, commit_lsn: int = 0, ordinal: int = 0, xmin: int = 0) -> RelayPosition:
    counted = COUNTING if ordinal else None
    return RelayPosition(HERE, "relay", LSN(lsn), LSN(commit_lsn), ordinal, xmin, counted)


def test_the_position_of_a_group_is_there_with_its_messages(case: RedisCase) -> None:
    with closing(begun(case)) as sink:
        assert sink.last() is None
        sink.mark(LSN(5))
        transaction(sink, case, 0, 1, 2, end=10)
        transaction(sink, case, 3, end=20)
        assert settle(sink, 4) == {10: 3, 20: 1}
        assert sink.publish(message(case, 4), 30)  # it stays open
        assert not [*sink.receipts(0.2)]
    assert last(case) == position(20)
    assert numbers(case.arrived()) == [0, 1, 2, 3]


def test_a_run_that_begins_ends_the_one_before(case: RedisCase) -> None:
    with closing(begun(case)) as before:
        transaction(before, case, 0, end=10)
        settle(before, 1)
        with closing(begun(case)) as after:
            assert after.last() == position(10)
            transaction(before, case, 1, end=20)
            assert failure(before) == "a later run of this slot publishes now, and this one may not any more"
            transaction(after, case, 1, end=20)
            settle(after, 1)
    assert numbers(case.arrived()) == [0, 1]


def test_runs_of_other_slots_and_systems_do_not_meet(case: RedisCase) -> None:
    assert plugin.exactly_once is not None
    with closing(begun(case)) as one:
        for system, slot in ((HERE, "other"), (System("8", 1), "relay")):
            with closing(plugin.exactly_once.open(case.settings(), case.memory, system, slot, None)) as other:
                while not other.fence():
                    pass
                transaction(other, case, 0, end=90)
                settle(other, 1)
        transaction(one, case, 1, end=10)
        settle(one, 1)
    assert last(case) == position(10)


def test_of_a_group_with_a_message_that_redis_refuses_nothing_is_there(case: RedisCase) -> None:
    case.client.set("text", "no stream")
    wrong = message(case, 3)._replace(topic="text")
    with closing(begun(case)) as sink:
        transaction(sink, case, 0, end=10)
        settle(sink, 1)
        for number in (1, 2):
            assert sink.publish(message(case, number), 20)
        assert sink.publish(wrong, 20)
        transaction(sink, case, 4, end=20)
        told = refusal(sink)
        assert (told.message, told.error, told.scope, told.ends) == (wrong, "unknown_topic", "topic", True)
        assert not sink.publish(message(case, 5), 30)
    assert numbers(case.arrived()) == [0]
    assert last(case) == position(10)


def test_the_position_does_not_get_past_a_message_that_does_not_fit(case: RedisCase) -> None:
    """It is refused before it is sent, and the end of its transaction comes before anybody hears of it."""
    misfit = message(case, 1)._replace(headers=[("a", None)])
    with closing(begun(case)) as sink:
        transaction(sink, case, 0, end=10)
        settle(sink, 1)
        assert sink.publish(misfit, 20)
        sink.mark(LSN(20))
        sink.mark(LSN(30))
        told = refusal(sink)
        assert (told.message, told.error, told.ends) == (misfit, "serialization", True)
        sink.mark(LSN(40))
        assert sink.keep(position(50)) == LSN(10)
        assert not sink.publish(message(case, 2), 40)
    assert last(case) == position(10)
    assert numbers(case.arrived()) == [0]


def test_a_transaction_is_cut_where_it_gets_long_and_not_before(case: RedisCase) -> None:
    with closing(begun(case)) as sink:
        for number in range(600):
            assert sink.publish(message(case, number), 1)
            if number in (99, 499, 599):
                sink.mark(LSN(10), LSN(15), number + 1)
        assert settle(sink, 500) == {1: 500}
        assert not [*sink.receipts(0.2)]
    assert last(case) == position(10, 15, 500)
    assert numbers(case.arrived()) == [*range(500)]


def test_a_transaction_is_cut_where_there_is_no_room(case: RedisCase) -> None:
    with closing(begun(case, max_in_flight=10)) as sink:
        number = 0
        while sink.publish(message(case, number), 1):
            number += 1
        sink.mark(LSN(10), LSN(15), number)
        assert settle(sink, number) == {1: number}
    assert number == 5
    assert last(case) == position(10, 15, 5)


def test_idle_progress_is_kept(case: RedisCase) -> None:
    with closing(begun(case)) as sink:
        sink.mark(LSN(10), LSN(40), 3)
        assert sink.keep(position(20, xmin=7)) == LSN(20)
        assert sink.keep(position(50, xmin=8)) == LSN(50)
    assert last(case) == position(50, xmin=8)
    with closing(begun(case)) as sink:
        sink.last()
        sink.mark(LSN(50), LSN(90), 3)
        assert sink.keep(position(60)) == LSN(60)
    assert last(case) == position(60, 90, 3), "a transaction that is cut stays cut"


def test_a_relay_that_publishes_at_least_once_can_keep_its_position_there(case: RedisCase) -> None:
    assert plugin.exactly_once is not None
    open_positions = plugin.exactly_once.open_positions
    before = open_positions(case.settings(), HERE, "relay")
    assert before.last() is None
    assert before.keep(position(10)) == LSN(10)
    after = open_positions(case.settings(), HERE, "relay")
    assert after.last() == position(10)
    with pytest.raises(Retryable, match="a later run of this slot publishes now"):
        before.keep(position(20))
    assert after.keep(position(30)) == LSN(30)
    (finding,) = plugin.exactly_once.examine_positions(case.settings())
    assert finding.verdict == "ok"
    assert last(case) == position(30)
    with pytest.raises(Retryable, match="Redis cannot be reached"):
        open_positions(case.settings(url="redis://127.0.0.1:1"), HERE, "relay").last()


def test_of_a_group_the_message_is_named_that_the_user_may_not_send(case: RedisCase) -> None:
    """Redis refuses the whole script, and does not say which of its streams it is about."""
    url = user(case, f"~{case.topic}", "~walrelay:*", "+eval", "+xadd", "+xdel", "+hget", "+hset")
    forbidden = message(case, 1)._replace(topic="forbidden")
    with closing(begun(case, url=url)) as sink:
        for each in (message(case, 0), forbidden, message(case, 2)):
            assert sink.publish(each, 10)
        sink.mark(LSN(10))
        told = refusal(sink)
        assert (told.message, told.error, told.scope) == (forbidden, "not_authorized", "topic")
    assert numbers(case.arrived()) == []
    with closing(begun(case, url=url)) as sink:
        assert sink.last() is None
        for number in (0, 2):  # a record may be two messages, and its position comes behind the second
            assert sink.publish(message(case, number), 10)
        sink.mark(LSN(10))
        settle(sink, 2)
    assert last(case) == position(10)


def test_a_user_that_could_not_undo_half_a_group_publishes_nothing(case: RedisCase) -> None:
    """Else what came before a message that Redis refuses would stay there, and come again."""
    url = user(case, "~*", "+eval", "+xadd", "+hget", "+hset")
    with pytest.raises(Fatal, match="cannot be used: NOPERM") as why:
        begun(case, url=url)
    assert "+xdel" in why.value.hint


def test_what_an_earlier_run_published_is_durable_before_its_position_is_believed(private_redis: RedisMaker) -> None:
    """It died while it waited for the replicas."""
    master, replica = private_redis(), private_redis()
    with closing(RedisCase(master)) as case, replica.client() as other:
        replicate(other, master)
        with closing(begun(case, wait_replicas=1)) as before:
            transaction(before, case, 0, end=10)
            settle(before, 1)
            replica.kill()
            transaction(before, case, 1, end=20)
            wait_until(lambda: not [*before.receipts(0.05)] and numbers(case.arrived()) == [0, 1], 20, "the master")
        assert plugin.exactly_once is not None
        settings = case.settings(wait_replicas=1)
        with closing(plugin.exactly_once.open(settings, case.memory, HERE, "relay", COUNTING)) as after:
            waits = "of Redis's replicas 0 have what was published last, and 1 should"
            wait_until(lambda: not after.fence() and after.trouble() == waits, 20, "the sink to wait")
            replica.start()
            replicate(other, master)
            wait_until(after.fence, 20, "the fence")
            assert after.last() == position(20)


def test_a_key_that_holds_no_position_is_a_fault_of_the_settings(case: RedisCase) -> None:
    case.client.set(KEY, "text")
    with pytest.raises(Fatal, match=f"the key '{KEY}' for the relay's position cannot be used: WRONGTYPE"):
        begun(case)
    case.client.delete(KEY)
    case.client.hset(KEY, "position", "text")
    with pytest.raises(Fatal, match=f"the position in '{KEY}' cannot be read: b'text'"):
        begun(case)
    case.client.delete(KEY)
    with pytest.raises(Fatal, match="cannot be used: NOPERM"):
        begun(case, url=user(case, "~*", "+eval", "+xadd"))


def test_a_connection_that_is_cut_is_made_again_and_each_message_is_there_once(case: RedisCase) -> None:
    with closing(begun(case)) as sink:
        settled = 0
        for number in range(1500):
            while not sink.publish(message(case, number), 1):
                settled += sum(each.messages for each in sink.receipts(0.05) if isinstance(each, Receipt))
            if number % 3 == 2:
                sink.mark(LSN(number + 1))
            if number % 300 == 250:
                sink.flush(0)
                case.client.client_kill_filter(_type="normal", skipme=True)
        settle(sink, 1500 - settled)
        assert sink.trouble() == ""
    assert numbers(case.arrived()) == [*range(1500)]
    assert last(case) == position(1500)


def test_a_connection_that_another_run_took_the_slot_from_is_not_made_again(case: RedisCase) -> None:
    with closing(begun(case)) as before, closing(begun(case)):
        case.client.client_kill_filter(_type="normal", skipme=True)
        transaction(before, case, 0, end=10)
        assert "has another owner now" in failure(before)
    assert numbers(case.arrived()) == []
