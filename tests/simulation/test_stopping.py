"""A graceful stop settles what is in flight, confirms it, and ends where a transaction ends."""

from contextlib import suppress

import pytest

from tests.simulation.clock import Clock
from tests.simulation.test_crashes import small_wal
from tests.simulation.wal import Wal, numbered
from tests.simulation.world import World
from walrelay.errors import Undecodable
from walrelay.observe import Noticed, Stopped


def unsettled(world: World) -> int:
    """How many messages were, when the relay had left."""
    last = world.seen.happenings[-1]
    assert isinstance(last, Stopped)
    return last.unsettled


@pytest.mark.parametrize("seed", range(10))
def test_a_stop_after_any_turn_and_a_restart_repeat_nothing(clock: Clock, seed: int) -> None:
    for turns in range(60):
        world = World(small_wal(), clock, seed)
        world.stopped_after(turns)
        world.live()
        world.verify()
        assert world.repetitions() == 0, f"stopped after {turns} turns"


@pytest.mark.parametrize("batch", [3, 40])
def test_a_stop_in_the_middle_of_a_large_transaction_publishes_it_to_its_end_and_nothing_after_it(
    clock: Clock, batch: int
) -> None:
    """However busy the stream is: here every read ends in the middle of yet another transaction."""
    wal = Wal()
    large = wal.commit(numbered("a", 200))
    for number in range(30):
        wal.commit(numbered("b", 20, first=20 * number))
    world = World(wal, clock, batch=batch)
    world.stopped_after(20)
    assert world.slot.confirmed == large.end_lsn
    assert world.first_deliveries("a") == [event.payload for event in large.events]
    assert world.of_key("b") == []
    assert unsettled(world) == 0
    assert world.seen.retries == world.seen.notices == []


def test_a_stop_in_a_transaction_with_an_unreadable_record_confirms_what_came_before_it(clock: Clock) -> None:
    """What came before may need the settings of then, so it must not come again."""
    for turns in range(60):
        wal = Wal()
        before = wal.commit("b1")
        wal.commit(numbered("a", 20))
        world = World(wal, clock, turns, batch=3)
        world.unreadable = wal.events[-1]
        world.slot.due = 0
        with suppress(Undecodable):
            world.stopped_after(turns)
            continue  # it left before it got there
        assert world.slot.confirmed == before.end_lsn, f"stopped after {turns} turns"


def test_frames_that_were_read_past_the_end_are_left_for_the_next_run(clock: Clock) -> None:
    wal = Wal()
    wal.commit("a1 a2 a3")
    wal.commit("a4 a5 a6")
    wal.commit("a7")
    for turns in range(12):
        world = World(wal, clock, room=100, batch=50)
        world.stopped_after(turns)
        world.live()
        world.verify()
        assert world.repetitions() == 0


def test_the_last_confirmation_is_sent_on_leaving_even_if_none_was_due(clock: Clock) -> None:
    """Section D: D21, the last acknowledgement was not sent on shutdown."""
    wal = Wal()
    wal.commit("a1")
    world = World(wal, clock)
    world.slot.due = 0
    world.stopped_after(30)
    assert world.slot.statuses == [wal.start, wal.end]


def test_a_sink_that_gathers_messages_is_told_to_let_them_go_on_leaving(clock: Clock) -> None:
    for turns in range(1, 30):
        wal = Wal()
        wal.commit("a1 a2")
        world = World(wal, clock, turns, batch=20)
        world.broker.gathers = True
        world.stopped_after(turns)
        assert unsettled(world) == 0


def test_a_stop_while_the_broker_is_away_takes_no_longer_than_it_may_and_confirms_nothing(clock: Clock) -> None:
    wal = Wal()
    wal.commit("a1 a2")
    wal.commit("a3")
    world = World(wal, clock, room=100)
    world.broker.held = {"early"}
    world.stopped_after(30)
    began = clock()
    world.stopped_after(30)
    assert world.limits.shutdown <= clock() - began < world.limits.shutdown + 10
    assert world.slot.confirmed == wal.start
    assert unsettled(world) == 3
    world.broker.held.clear()
    world.live()
    world.verify()


def test_a_stop_while_there_is_no_room_takes_no_longer_than_it_may(clock: Clock) -> None:
    wal = Wal()
    wal.commit(numbered("a", 50))
    world = World(wal, clock, room=4)
    world.broker.held = {"early"}
    world.limits = world.limits._replace(pause=1000)
    began = clock()
    world.stopped_after(30)
    assert clock() - began < world.limits.shutdown + 10
    assert world.slot.confirmed == wal.start
    last = world.seen.happenings[-1]
    assert isinstance(last, Noticed)
    assert "not cleanly: the sink has accepted nothing" in last.text
    world.broker.held.clear()
    world.live()
    world.verify()
