"""What exactly once rests on in NATS: a chain without gaps, a position behind it, and what is found between the two."""

import asyncio
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from typing import Any

import pytest

from tests.brokers.nats import NatsCase, request
from tests.servers.nats import NatsServer
from tests.servers.waiting import wait_until
from walrelay.errors import Fatal, Retryable
from walrelay.lsn import LSN
from walrelay.model import Counting, RelayPosition, System
from walrelay.publish.contract import ExactlyOnceSink
from walrelay.sinks.nats.groups import NatsGroups
from walrelay.sinks.nats.plugin import plugin
from walrelay.sinks.nats.positions import Covered, PositionSubject
from walrelay.sinks.nats.settings import NatsSettings
from walrelay.sinks.nats.tail import Stored
from walrelay.testing import failure, message, numbers, publish, refusal, settle

HERE = System("7000000000000000001", 1)
COUNTING = Counting("pgoutput", "walrelay", "outbox", None)
POSITIONS = "walrelay_positions"


@pytest.fixture
def case(stoppable_nats: NatsServer) -> Iterator[NatsCase]:
    stoppable_nats.start()
    with closing(NatsCase(stoppable_nats)) as made:
        yield made
        names = request(stoppable_nats.url, "STREAM.NAMES").get("streams") or []
        if POSITIONS in names:
            request(stoppable_nats.url, f"STREAM.DELETE.{POSITIONS}")


def opened(case: NatsCase, slot: str = "relay", **settings: Any) -> ExactlyOnceSink:
    assert plugin.exactly_once is not None
    made = NatsSettings.model_validate({"url": case.server.url, "stream": case.topic, **settings})
    return plugin.exactly_once.open(made, case.memory, HERE, slot, COUNTING)


def begun(case: NatsCase, slot: str = "relay", **settings: Any) -> ExactlyOnceSink:
    """A sink that may publish."""
    sink = opened(case, slot, **settings)
    try:
        wait_until(sink.fence, 20, "the fence")
    except BaseException:
        sink.close()
        raise
    return sink


def transaction(sink: ExactlyOnceSink, case: NatsCase, *numbered: int, end: int) -> None:
    for number in numbered:
        assert sink.publish(message(case, number), end)
    sink.mark(LSN(end))


def position(lsn: int, commit_lsn: int = 0, ordinal: int = 0) -> RelayPosition:
    return RelayPosition(HERE, "relay", LSN(lsn), LSN(commit_lsn), ordinal, 0, COUNTING if ordinal else None)


def last(case: NatsCase) -> RelayPosition | None:
    """What the next run finds."""
    with closing(begun(case)) as sink:
        return sink.last()


def test_a_position_is_kept_behind_its_messages(case: NatsCase) -> None:
    with closing(begun(case)) as sink:
        assert sink.last() is None
        sink.mark(LSN(5))
        transaction(sink, case, 0, 1, 2, end=10)
        transaction(sink, case, 3, end=20)
        assert settle(sink, 4) == {10: 3, 20: 1}
        assert sink.publish(message(case, 4), 30)  # it stays open
        assert not [*sink.receipts(0.2)]
        assert numbers(case.arrived()) == [0, 1, 2, 3]
    assert last(case) == position(20)
    with closing(begun(case)) as sink:
        transaction(sink, case, 4, end=30)
        settle(sink, 1)
    assert numbers(case.arrived()) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("there", [0, 1, 3, 5])
def test_what_a_run_stored_and_did_not_cover_is_not_sent_again(
    case: NatsCase, monkeypatch: pytest.MonkeyPatch, there: int
) -> None:
    """It died between the messages of a group, or before it kept the position."""
    with closing(begun(case)) as sink:
        transaction(sink, case, 0, end=10)
        settle(sink, 1)

        async def dies(*_: object) -> None:
            raise Fatal("it died")

        monkeypatch.setattr(PositionSubject, "write", dies)
        if there:
            transaction(sink, case, *range(1, 1 + there), end=20)
            assert failure(sink, Fatal) == "it died"
        monkeypatch.undo()
    assert numbers(case.arrived()) == [*range(1 + there)]
    for end in (20, 30):  # and the next one dies as well, before it covers them
        with closing(begun(case)) as successor:
            assert successor.last() == position(10)
            if end == 20:
                continue
            transaction(successor, case, 1, 2, end=20)
            transaction(successor, case, 3, 4, 5, end=30)
            assert settle(successor, 5) == {20: 2, 30: 3}
    assert numbers(case.arrived()) == [0, 1, 2, 3, 4, 5]
    assert last(case) == position(30)


def test_what_was_acknowledged_and_consumed_is_not_sent_again(stoppable_nats: NatsServer) -> None:
    """Neither by the same sink, which connects again, nor by the next one of the process."""
    stoppable_nats.start()
    with closing(NatsCase(stoppable_nats, max_msgs=2, discard="new")) as case:
        taken = list[int]()

        def full(sink: ExactlyOnceSink) -> bool:
            """Or all is durable."""
            durable = [*sink.receipts(0.05)]
            return bool(durable) or (len(case.arrived()) == 2 and "maximum messages" in sink.trouble())

        for _ in range(2):
            with closing(begun(case)) as sink:
                transaction(sink, case, *range(8), end=10)
                for _ in range(2):
                    wait_until(partial(full, sink), 20, "the stream to be full")
                    taken += numbers(case.arrived())
                    request(stoppable_nats.url, f"STREAM.PURGE.{case.topic}")
        assert taken == [*range(8)]


def test_messages_that_are_the_same_are_all_stored(case: NatsCase) -> None:
    """A stream drops a message with an id that it has had in the last two minutes."""
    same = message(case, 7)._replace(headers=[])
    for end in (10, 20):
        with closing(begun(case)) as sink:
            for _ in range(2):
                assert sink.publish(same, end)
            sink.mark(LSN(end))
            settle(sink, 2)
    assert numbers(case.arrived()) == [7] * 4


def test_other_messages_than_those_that_are_there_are_sent(case: NatsCase, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other settings make other messages of the same records."""

    async def dies(*_: object) -> None:
        raise Fatal("it died")

    with closing(begun(case)) as sink, monkeypatch.context() as died:
        died.setattr(PositionSubject, "write", dies)
        transaction(sink, case, 0, 1, end=10)
        failure(sink, Fatal)
    with closing(begun(case)) as sink:
        transaction(sink, case, 0, 2, 3, end=10)
        settle(sink, 3)
    assert numbers(case.arrived()) == [0, 1, 2, 3]


def test_an_earlier_run_publishes_nothing_behind_a_later_one(case: NatsCase) -> None:
    with closing(begun(case)) as before:
        transaction(before, case, 0, end=10)
        settle(before, 1)
        with closing(begun(case)) as after:
            assert after.last() == position(10)
            transaction(after, case, 1, end=20)
            settle(after, 1)
            transaction(before, case, 1, end=20)
            assert failure(before) == "another instance publishes for slot 'relay' now"
    assert numbers(case.arrived()) == [0, 1]
    assert last(case) == position(20)


def test_what_an_earlier_run_still_publishes_is_found_by_the_next_one(case: NatsCase) -> None:
    """It woke up between the fence of the next one and that one's first message."""
    with closing(begun(case)) as zombie:
        transaction(zombie, case, 0, end=10)
        settle(zombie, 1)
        with closing(begun(case)) as after:
            assert after.last() == position(10)
            transaction(zombie, case, 1, end=20)
            assert failure(zombie) == "another instance publishes for slot 'relay' now"
            transaction(after, case, 1, 2, end=20)
            settle(after, 2)
    assert numbers(case.arrived()) == [0, 1, 2]
    assert last(case) == position(20)


def test_idle_progress_is_kept_and_an_earlier_run_keeps_none(case: NatsCase) -> None:
    with closing(begun(case)) as before:
        before.mark(LSN(10))
        assert before.keep(position(20)) == LSN(20)
        with closing(begun(case)) as after:
            assert after.last() == position(20)
            before.mark(LSN(30))
            with pytest.raises(Retryable, match="another instance publishes for slot 'relay' now"):
                before.keep(position(30))
            assert after.keep(position(40)) == LSN(40)
    assert last(case) == position(40)


def test_a_refused_message_ends_the_run_and_what_is_ahead_of_it_is_not_repeated(case: NatsCase) -> None:
    wrong = message(case, 2)._replace(topic="elsewhere")
    with closing(begun(case)) as sink:
        for each in (message(case, 0), message(case, 1), wrong, message(case, 3)):
            assert sink.publish(each, 10)
        sink.mark(LSN(10))
        told = refusal(sink)
        assert (told.message, told.error, told.ends) == (wrong, "unknown_topic", True)
    assert numbers(case.arrived()) == [0, 1]
    with closing(begun(case)) as sink:  # it became a dead letter
        assert sink.last() is None
        transaction(sink, case, 0, 1, 3, end=10)
        settle(sink, 3)
    assert numbers(case.arrived()) == [0, 1, 3]


def test_another_writer_is_told_of_and_does_no_harm(case: NatsCase) -> None:
    """A replay, for instance."""
    with closing(begun(case)) as sink:
        transaction(sink, case, 0, end=10)
        settle(sink, 1)
        with closing(case.open()) as other:
            settle(other, 1, publish(other, case, range(100, 101)))
        transaction(sink, case, 1, end=20)
        wait_until(lambda: not [*sink.receipts(0.01)] and sink.trouble(), 20, "the sink to say why")
        assert "somebody else writes to it" in sink.trouble()
        settle(sink, 1)
        assert sink.trouble() == ""
    assert numbers(case.arrived()) == [0, 100, 1]


def test_a_stream_that_got_much_without_a_position_is_looked_through_however_long_that_takes(
    case: NatsCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it is after a time at least once. The time limit is that of an answer."""
    with closing(begun(case)) as sink:
        transaction(sink, case, 0, end=10)
        settle(sink, 1)
    with closing(case.open()) as other:
        settle(other, 1_000, publish(other, case, range(100, 1_100)))
    ask = NatsGroups._message

    async def slow(groups: NatsGroups, sequence: int) -> Stored | None:
        await asyncio.sleep(0.3)
        return await ask(groups, sequence)

    monkeypatch.setattr(NatsGroups, "_message", slow)
    with closing(begun(case, request_timeout=2)) as sink:
        transaction(sink, case, 1, end=20)
        settle(sink, 1)
    assert numbers(case.arrived()) == [0, *range(100, 1_100), 1]


@pytest.mark.parametrize("lost", ["all", "last"])
def test_a_stream_that_was_made_again_stops_the_relay_and_one_that_was_purged_does_not(
    case: NatsCase, lost: str
) -> None:
    with closing(begun(case)) as sink:
        transaction(sink, case, 0, 1, end=10)
        settle(sink, 2)
    if lost == "all":
        case.close()
        case.make(case.topic, case.topic)
        with closing(begun(case)) as sink, pytest.raises(Fatal, match="it lost messages, or was made again"):
            sink.last()
    else:
        request(case.server.url, f"STREAM.PURGE.{case.topic}")
        assert last(case) == position(10)
    with closing(begun(case)) as sink:
        transaction(sink, case, 2, end=20)
        settle(sink, 1)
    assert numbers(case.arrived()) == [2]
    assert last(case) == position(20)


def test_slots_do_not_meet_and_a_stream_of_both_is_no_stream_of_ones_own(case: NatsCase) -> None:
    case.make(f"{case.topic}-2", f"{case.topic}-2")
    with closing(begun(case)) as one, closing(begun(case, "other", stream=f"{case.topic}-2")) as other:
        transaction(one, case, 0, end=10)
        settle(one, 1)
        assert other.publish(message(case, 0)._replace(topic=f"{case.topic}-2"), 90)
        other.mark(LSN(90))
        settle(other, 1)
    request(case.server.url, f"STREAM.DELETE.{case.topic}-2")
    assert last(case) == position(10)


def test_a_relay_at_least_once_keeps_its_position_there(case: NatsCase) -> None:
    assert plugin.exactly_once is not None
    settings = NatsSettings.model_validate({"url": case.server.url})
    before = plugin.exactly_once.open_positions(settings, HERE, "relay")
    assert before.last() is None
    assert before.keep(position(10)) == LSN(10)
    after = plugin.exactly_once.open_positions(settings, HERE, "relay")
    assert after.last() == position(10)
    with pytest.raises(Retryable, match="another instance publishes for slot 'relay' now"):
        before.keep(position(20))
    assert after.keep(position(30)) == LSN(30)


def test_a_command_that_moves_the_slot_covers_what_is_there(case: NatsCase) -> None:
    """`walrelay recover` publishes beside the relay, and then says where the relay goes on."""
    assert plugin.exactly_once is not None
    with closing(begun(case)) as sink:
        transaction(sink, case, 0, end=10)
        settle(sink, 1)
    with closing(case.open()) as recovery:
        settle(recovery, 1, publish(recovery, case, range(1, 2)))
    settings = NatsSettings.model_validate({"url": case.server.url, "stream": case.topic})
    keeper = plugin.exactly_once.open_positions(settings, HERE, "relay")
    wait_until(lambda: keeper.keep(position(50)) == LSN(50), 20, "the position")
    with closing(begun(case)) as sink:
        assert sink.last() == position(50)
        transaction(sink, case, 2, end=60)
        settle(sink, 1)
    assert numbers(case.arrived()) == [0, 1, 2]


def test_what_is_missing_is_told(case: NatsCase) -> None:
    assert plugin.exactly_once is not None
    with pytest.raises(Fatal, match="needs the name of a stream"):
        opened(case, stream=None)
    with pytest.raises(Fatal, match="stream 'nowhere' does not exist"):
        begun(case, stream="nowhere")
    with closing(opened(case, url="nats://127.0.0.1:1")) as sink:
        wait_until(lambda: not sink.fence() and "NATS cannot be reached" in sink.trouble(), 20, "the reason")
    verdicts = [
        [finding.verdict for finding in plugin.exactly_once.examine_positions(NatsSettings.model_validate(settings))]
        for settings in ({"url": case.server.url}, {"url": case.server.url, "stream": case.topic})
    ]
    assert verdicts == [["problem"], ["ok"]]


def test_a_record_of_a_position_is_read_as_it_was_written() -> None:
    for each in (Covered(None, 0), Covered(position(10, 15, 3), 7)):
        assert Covered.of_json(each.as_json()) == each
