"""What other relays got wrong, one test each; the numbers are those of section D of the list of pitfalls.

D2, D21, D23 and D24 stand with their subjects in the files beside this one; D10, D12 and D22 concern the source and
have tests in tests/unit/source as well.
"""

import pytest

from tests.simulation.clock import Clock
from tests.simulation.wal import Wal, numbered
from tests.simulation.world import World
from walrelay.errors import Refused, Undecodable


def test_d1_keepalives_do_not_confirm_an_event_that_has_no_receipt(clock: Clock) -> None:
    """Also D4 and D32: the position moved by keepalives although nothing was acknowledged."""
    wal = Wal()
    wal.commit("a1")
    wal.elsewhere()
    world = World(wal, clock)
    world.slot.chatty = 0.9
    world.broker.held = {"early"}
    world.killed_after(200)
    assert world.slot.statuses == [wal.start]
    world.broker.held.clear()
    world.live()
    world.verify()


def test_d3_a_fresh_connection_that_begins_with_a_keepalive_confirms_no_half_transaction(clock: Clock) -> None:
    for turns in range(60):
        wal = Wal()
        before = wal.commit("a1")
        world = World(wal, clock, batch=1)
        world.slot.chatty = 1.0
        world.live()
        large = wal.commit(numbered("b", 10))
        world.killed_after(turns)
        assert world.slot.confirmed in (before.end_lsn, large.end_lsn)
        world.live()
        world.verify()


def test_d5_a_later_receipt_does_not_confirm_an_earlier_message(clock: Clock) -> None:
    """The last callback won; here the first topic has none while the second has them all."""
    wal = Wal()
    wal.commit("a1")
    wal.commit(numbered("c", 5))
    world = World(wal, clock, room=100)
    world.broker.held = {"early"}
    world.killed_after(100)
    assert len(world.of_key("c")) == 5
    assert world.slot.statuses == [wal.start]
    world.broker.held.clear()
    world.live()
    world.verify()


@pytest.mark.parametrize("turns", [1, 5, 20, 50, 100, 150])
def test_d6_rows_of_one_copy_share_their_lsn_and_none_is_taken_for_done(clock: Clock, turns: int) -> None:
    wal = Wal()
    wal.commit(numbered("a", 300), opened=wal.start)
    world = World(wal, clock, room=20)
    world.killed_after(turns)
    world.live()
    world.verify()


def test_d7_a_long_transaction_that_is_open_at_the_kill_comes_again_whole(clock: Clock) -> None:
    """The streaming position was flushed, not the commit's."""
    wal = Wal()
    opened = wal.end
    before = wal.commit("a1")
    wal.commit(numbered("b", 60), opened=opened)
    world = World(wal, clock)
    world.killed_after(20)
    assert len(world.of_key("b")) < 60
    assert world.slot.confirmed in (wal.start, before.end_lsn)
    world.live()
    world.verify()


def test_d7_a_message_that_the_broker_refuses_ends_the_relay_with_its_reason(clock: Clock) -> None:
    """The producer's error was swallowed, and the task "finished"."""
    wal = Wal()
    wal.commit("a1")
    poisoned = wal.commit("a2 a3")
    wal.commit("a4")
    world = World(wal, clock)
    world.broker.refused = {poisoned.events[0].payload}
    with pytest.raises(Refused, match=f"record a2 at {poisoned.commit_lsn}:0 .* 'early': too large") as caught:
        world.live()
    assert caught.value.hint == "Make it smaller."
    assert world.slot.confirmed <= poisoned.commit_lsn


@pytest.mark.parametrize("kind", ["connection_breaks", "everything_dies"])
def test_d8_a_batch_that_ends_in_the_middle_of_a_transaction_confirms_none_of_it(clock: Clock, kind: str) -> None:
    """Also D33. Seven frames at a time, transactions of ten rows, broken everywhere."""
    for step in range(1, 200):
        wal = Wal()
        wal.commit(numbered("a", 10))
        wal.commit(numbered("a", 10, first=11))
        world = World(wal, clock, step, batch=7)
        world.fuse.crashes[step] = getattr(world, kind)
        world.live()
        world.verify()


def test_d10_without_a_position_of_its_own_the_relay_starts_where_the_slot_stands(clock: Clock) -> None:
    """Also D22: the first status update repeats the slot's position, it is never 0/0 and never the end of WAL."""
    wal = Wal()
    first = wal.commit("a1")
    world = World(wal, clock)
    world.live()
    said = len(world.slot.statuses)
    wal.commit("a2")
    wal.elsewhere()
    world.live()
    world.verify()
    assert world.slot.starts == [wal.start, first.end_lsn]
    assert world.slot.statuses[said] == first.end_lsn
    assert world.repetitions() == 0


def test_d11_rows_at_positions_before_an_earlier_commit_are_not_taken_for_done(clock: Clock) -> None:
    wal = Wal()
    long_ago = wal.end
    for number in range(1, 6):
        wal.elsewhere()
        wal.commit(f"a{2 * number - 1}")
        wal.commit(f"a{2 * number}", opened=long_ago)
    for turns in range(40):
        world = World(wal, clock)
        world.killed_after(turns)
        world.live()
        world.verify()


def test_d12_the_position_that_is_kept_is_the_one_that_was_told(clock: Clock) -> None:
    """A newer position came between storing one and confirming it."""
    wal = Wal()
    for number in range(1, 8):
        wal.commit(f"a{number}")
    for step in range(1, 150):
        world = World(wal, clock)
        world.slot.due = 0.3  # mostly more is settled than was told
        world.fuse.crashes[step] = world.connection_breaks
        world.live()
        world.verify()
        assert set(world.slot.starts) <= set(world.slot.statuses)


def test_d14_what_waits_for_a_slow_broker_is_not_confirmed_and_comes_again(clock: Clock) -> None:
    wal = Wal()
    wal.commit("a1 c1")
    wal.commit("c2")
    world = World(wal, clock)
    world.broker.mute = {"late"}  # stored, but the acknowledgement is on its way
    world.killed_after(50)
    assert world.slot.statuses == [wal.start]
    world.broker.mute.clear()
    world.live()
    world.verify()


def test_d17_every_connection_starts_where_a_transaction_ends(clock: Clock) -> None:
    for step in range(1, 200):
        wal = Wal()
        ends = [wal.start, *(wal.commit(numbered(key, 4)).end_lsn for key in "abcd")]
        world = World(wal, clock, step)
        world.slot.chatty = 0.9
        world.fuse.crashes[step] = world.connection_breaks
        world.live()
        assert set(world.slot.starts) <= set(ends)


def test_d27_a_full_queue_does_not_change_the_order(clock: Clock) -> None:
    """3,000 rows through a window of ten messages in front of a slow broker."""
    wal = Wal()
    for first in range(1, 3_001, 50):
        wal.commit(numbered("a", 50, first))
    world = World(wal, clock, room=10, batch=200)
    world.broker.pace = 0.3
    world.live()
    world.verify()
    assert world.repetitions() == 0


@pytest.mark.parametrize("seed", range(20))
def test_d29_rows_that_do_not_fit_the_settings_any_more_stop_the_relay_and_are_not_passed_over(
    clock: Clock, seed: int
) -> None:
    """What came before them is settled and confirmed: it must not come again under settings made for what follows."""
    wal = Wal()
    fine = wal.commit("a1 a2 a3")
    wal.rename("body")
    renamed = wal.end
    wal.commit("a4")
    world = World(wal, clock, seed, batch=20)
    with pytest.raises(Undecodable, match=r"no column 'payload' for the role payload"):
        world.live()
    assert world.slot.confirmed in (fine.end_lsn, renamed)
    assert world.first_deliveries("a") == [event.payload for event in fine.events]
    assert world.repetitions() == 0


@pytest.mark.parametrize("batch", [1, 20])
def test_d29_a_row_that_does_not_fit_in_the_middle_of_a_transaction_confirms_none_of_it(
    clock: Clock, batch: int
) -> None:
    """Nor is the rest of the transaction read, with its Commit, as if the row had not been there."""
    wal = Wal()
    fine = wal.commit("a1")
    broken = wal.commit("a2 a3 a4")
    world = World(wal, clock, batch=batch)
    world.unreadable = broken.events[1]
    with pytest.raises(Undecodable):
        world.live()
    assert world.slot.confirmed == fine.end_lsn
    assert world.first_deliveries("a") == [event.payload for event in wal.events[:2]]
    world.unreadable = None
    world.live()
    world.verify()
