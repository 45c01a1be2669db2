"""Liveness: WAL is freed while the outbox is idle, a stall is said, and a pause has an end."""

from collections.abc import Iterable

import pytest

from tests.simulation.clock import Clock
from tests.simulation.slot import FusedSource
from tests.simulation.wal import Wal, numbered
from tests.simulation.world import World
from walrelay.errors import Fatal, Retryable
from walrelay.lsn import LSN
from walrelay.model import Skipped
from walrelay.observe import Resumed, Stalled, Stopped, Stopping, Streaming


def test_an_idle_outbox_frees_the_wal_that_others_write(clock: Clock) -> None:
    """Section D: D23, keepalives were ignored, so WAL piled up."""
    wal = Wal()
    wal.elsewhere(1 << 30)
    world = World(wal, clock)
    world.live()
    assert world.slot.confirmed == wal.end
    assert world.broker.messages == []


def test_transactions_of_other_tables_alone_free_their_wal(clock: Clock) -> None:
    """Section D: D23, filtered events were never checkpointed."""
    wal = Wal()
    for _ in range(20):
        wal.commit()
    world = World(wal, clock)
    world.slot.chatty = 0
    world.live()
    assert world.slot.confirmed == wal.end


def test_a_keepalive_that_came_while_messages_were_unsettled_is_used_once_they_are_settled(clock: Clock) -> None:
    wal = Wal()
    first = wal.commit("a1")
    wal.elsewhere()
    world = World(wal, clock)
    world.broker.held = {"early"}
    world.killed_after(100)
    assert world.slot.confirmed == wal.start
    world.broker.held.clear()
    world.live()
    assert world.slot.confirmed == wal.end > first.end_lsn


def test_idle_progress_goes_no_further_than_the_source_vouches_for(clock: Clock) -> None:
    wal = Wal()
    wal.elsewhere()
    known = wal.end
    wal.elsewhere()
    world = World(wal, clock)

    def vouch_for_less(source: FusedSource) -> None:
        source.vouched = known

    world.prepare = vouch_for_less
    world.stopped_after(100)
    assert world.slot.confirmed == known
    last = wal.commit("a1")
    world.stopped_after(100)
    assert world.slot.confirmed == last.end_lsn, "an event that came through needs nobody to vouch for it"


def test_an_outbox_that_left_the_publication_ends_the_relay_and_keeps_the_position(clock: Clock) -> None:
    wal = Wal()
    last = wal.commit("a1")
    wal.elsewhere()
    world = World(wal, clock)

    def unpublished(lsn: LSN) -> LSN:
        raise Fatal("the outbox is not published")

    def refuse(source: FusedSource) -> None:
        source.vouch = unpublished  # type: ignore[method-assign]

    world.prepare = refuse
    world.slot.chatty = 0
    with pytest.raises(Fatal):
        world.live()
    assert world.slot.confirmed <= last.end_lsn


def test_a_broker_that_gives_no_receipts_is_a_stall_that_is_said_and_ended(clock: Clock) -> None:
    wal = Wal()
    wal.commit("a1")
    world = World(wal, clock, room=100)
    world.broker.mute = {"early"}
    world.killed_after(1200)
    _, *stalls = world.seen.happenings
    assert stalls == world.seen.of(Stalled) != []
    assert world.seen.of(Stalled)[0].why == "the broker is slow today"

    def hear_again(source: FusedSource) -> None:
        world.broker.mute.clear()

    world.prepare = hear_again
    world.live()
    world.verify()


def test_a_sink_that_gathers_messages_is_told_to_let_them_go_once_the_stream_is_drained(clock: Clock) -> None:
    wal = Wal()
    wal.commit(numbered("a", 100))
    world = World(wal, clock, room=1000)
    world.broker.gathers = True
    world.live()
    world.verify()


def pushed_although_a_push_was_missed(clock: Clock) -> None:
    wal = Wal()
    wal.commit("a1")
    world = World(wal, clock)
    world.slot.chatty, world.broker.gathers, world.broker.misses_flushes = 0, True, 2
    world.live()
    world.verify()


def test_a_push_that_the_client_library_missed_is_repeated(clock: Clock) -> None:
    pushed_although_a_push_was_missed(clock)


def confirmed_soon(clock: Clock, seeds: Iterable[int]) -> None:
    """Status updates are not always due when there is progress, and no frame comes to say when they are."""
    for seed in seeds:
        wal = Wal()
        wal.commit("a1")
        world = World(wal, clock, seed)
        world.slot.chatty, world.slot.due = 0, 0.5
        began = clock()
        world.live()
        assert clock() - began < 20, "the relay waits for frames, and does not look after what is settled"


def test_what_is_settled_is_confirmed_soon_after_the_stream_has_gone_silent(clock: Clock) -> None:
    confirmed_soon(clock, range(20))


def test_a_silent_relay_does_little(clock: Clock) -> None:
    """A turn costs CPU."""
    world = World(Wal(), clock)
    began, turns = clock(), 0

    def stop() -> bool:
        nonlocal turns
        turns += 1
        return clock() - began > 100

    world.stop = stop
    world.live()
    assert turns < 500


def test_a_stall_that_ends_is_said_to_be_over(clock: Clock) -> None:
    wal = Wal()
    wal.commit("a1")
    world = World(wal, clock)
    world.broker.held = {"early"}
    began = clock()

    def done() -> bool:
        if clock() - began > 8:
            world.broker.held.clear()
        return world.done()

    world.stop = done
    world.live()
    assert [type(each) for each in world.seen.happenings] == [Streaming, Stalled, Resumed, Stopping, Stopped]


def test_a_broker_that_is_slow_but_moves_is_not_a_stall(clock: Clock) -> None:
    wal = Wal()
    for number in range(1, 11):
        wal.commit(f"a{number}")
    world = World(wal, clock, room=100)
    began = clock()
    moves = began + 3

    def done() -> bool:
        nonlocal moves
        world.broker.pace = 0
        if clock() > moves:
            world.broker.pace, moves = 1, clock() + 3
        return world.done()

    world.stop = done
    world.live()
    assert clock() - began > 8
    assert [type(each) for each in world.seen.happenings] == [Streaming, Stopping, Stopped]


def lives_until_there_is_room(world: World, clock: Clock, after: float) -> None:
    """The broker takes again after so many seconds what it held, and everything arrives."""
    began = clock()

    def done() -> bool:
        if clock() - began > after:
            world.broker.held.clear()
        return world.done()

    world.stop = done
    world.live()
    world.verify()


def test_reading_pauses_so_long_and_then_the_stream_is_let_go_until_there_is_room(clock: Clock) -> None:
    """A walsender that nobody reads from blocks the checkpointer of the whole cluster (guarantees A8)."""
    wal = Wal()
    wal.commit(numbered("a", 20))
    world = World(wal, clock, room=5)
    world.broker.held = {"early"}
    lives_until_there_is_room(world, clock, after=500)
    assert world.repetitions() == 0
    (said,) = world.seen.notices
    assert "accepted nothing for 30 s (the broker is slow today)" in said
    assert len(world.slot.starts) == 2


@pytest.mark.parametrize("seed", range(20))
def test_a_topic_that_takes_nothing_for_long_costs_no_repetition_of_the_others(clock: Clock, seed: int) -> None:
    wal = Wal()
    for number in range(1, 41):
        wal.commit(f"a{number} z{number} c{number}" if number % 2 else f"c{number} z{number}")
    world = World(wal, clock, seed, room=6)
    world.broker.held = {"late"}
    lives_until_there_is_room(world, clock, after=300)
    assert world.repetitions() == 0
    assert world.seen.retries == []


def test_a_lead_that_is_lost_while_there_is_no_room_costs_the_sink_what_it_holds(clock: Clock) -> None:
    """Whoever leads then publishes that, so nothing of it may arrive later."""
    wal = Wal()
    wal.commit(numbered("a", 20))
    world = World(wal, clock, room=5)
    world.broker.held = {"early"}
    sinks = []

    def lost() -> None:
        sinks.append(world.sinks[-1])
        raise Retryable("another one leads")

    def broker_is_back() -> bool:
        if sinks:
            world.broker.held.clear()
        return world.done()

    world.leading, world.stop = lost, broker_is_back
    world.live()
    world.verify()
    (sink,) = sinks
    assert sink is not world.sinks[-1]
    assert not sink._queues, "it still has what another one publishes"


def test_the_server_hears_from_the_relay_all_through_a_large_transaction_and_a_slow_broker(clock: Clock) -> None:
    """Section D: D24, no feedback during a big transaction: timeout, and the transaction again, for ever."""
    wal = Wal()
    wal.commit(numbered("a", 500))
    world = World(wal, clock, room=3)
    world.broker.pace = 0.05
    world.slot.patience = 0.5
    world.live()
    world.verify()
    assert len(world.slot.starts) == 1


def test_what_is_passed_over_by_setting_is_told_each_time_with_its_position(clock: Clock) -> None:
    wal = Wal()
    wal.loose("x1")
    first = wal.end
    wal.commit("a1")
    wal.loose("x2")
    world = World(wal, clock)
    world.live()
    world.verify()
    assert [skipped.lsn for skipped in world.seen.of(Skipped)] == [first, wal.end]
