"""Whatever breaks, and wherever: nothing is lost, nothing is made up, and each key keeps its order."""

from random import Random

import pytest

from tests.simulation.breaking import broken_at_each_step, steps
from tests.simulation.clock import Clock
from tests.simulation.wal import Wal, numbered
from tests.simulation.world import World
from walrelay.lsn import LSN

KINDS = ["connection_breaks", "connection_breaks_alone", "process_dies", "server_crashes", "everything_dies"]


def one_step_in(number: int) -> pytest.MarkDecorator:
    """How many steps a test goes on from one trial to the next; `make chaos` tries them all. Its cases begin at
    different steps, so that together they leave none out.
    """
    return pytest.mark.parametrize("stride", [number, pytest.param(1, marks=pytest.mark.chaos)])


def small_wal() -> Wal:
    """A little of everything: rows, messages, other tables, idle WAL, a rolled-back message, a larger transaction."""
    wal = Wal()
    early = wal.commit("a1 c1").commit_lsn
    wal.commit()
    wal.elsewhere()
    wal.commit("a2", as_messages=True)
    wal.loose("x1")
    wal.commit("c2 a3 a4 b1 c3 d1 c4", opened=early, foreign=True)
    wal.commit("b2")
    wal.elsewhere()
    return wal


def random_wal(random: Random) -> Wal:
    wal = Wal()
    counts = dict.fromkeys("abcd", 0)

    def some(most: int) -> str:
        names = []
        for key in random.choices("abcd", k=random.randint(1, most)):
            counts[key] += 1
            names.append(f"{key}{counts[key]}")
        return " ".join(names)

    for _ in range(random.randint(1, 12)):
        match random.choice(["rows", "rows", "messages", "other", "elsewhere", "loose", "large"]):
            case "rows":
                wal.commit(some(4), opened=wal.start, foreign=random.random() < 0.3)
            case "messages":
                wal.commit(some(3), as_messages=True)
            case "large":
                wal.commit(some(40))
            case "other":
                wal.commit()
            case "elsewhere":
                wal.elsewhere()
            case _:
                wal.loose("x1")
    return wal


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", KINDS)
def test_a_crash_at_any_step_loses_nothing_and_keeps_the_order(clock: Clock, kind: str, seed: int) -> None:
    """Section D: D2, kill between receipt and broker acknowledgement, at every message type."""
    broken_at_each_step(lambda: World(small_wal(), clock, seed), kind, stride=1)


@pytest.mark.parametrize("seed", range(150))
def test_random_histories_with_many_crashes_lose_nothing_and_keep_the_order(clock: Clock, seed: int) -> None:
    random = Random(seed)
    world = World(random_wal(random), clock, seed, room=random.randint(1, 20), batch=random.randint(1, 15))
    world.broker.pace = random.choice([0.1, 0.5, 1.0])
    world.slot.chatty = random.choice([0.0, 0.3, 0.9])
    for step in random.sample(range(1, 600), k=random.randint(0, 12)):
        world.fuse.crashes[step] = getattr(world, random.choice(KINDS))
    world.live()
    world.verify()


@pytest.mark.parametrize("seed", range(20))
def test_without_a_crash_everything_arrives_exactly_once(clock: Clock, seed: int) -> None:
    random = Random(seed)
    world = World(random_wal(random), clock, seed, room=random.randint(1, 20), batch=random.randint(1, 15))
    world.live()
    world.verify()
    assert world.repetitions() == 0


def test_after_a_server_crash_the_process_goes_on_from_what_it_confirmed_itself(clock: Clock) -> None:
    """The server forgets confirmed positions (guarantees A10); this process does not."""
    for step in range(1, steps(lambda: World(small_wal(), clock)) + 1):
        world = World(small_wal(), clock)
        confirmed: list[LSN] = []

        def crash(world: World = world, confirmed: list[LSN] = confirmed) -> None:
            confirmed.append(world.slot.confirmed)
            world.slot.checkpointed = world.wal.start
            world.server_crashes()

        world.fuse.crashes[step] = crash
        world.live()
        world.verify()
        retraced = [world.wal.start, *confirmed]  # what was confirmed is compared with the WAL before it is believed
        assert world.slot.starts[1:] in ([], confirmed, retraced)


def test_a_connection_that_breaks_again_before_the_stream_got_to_where_it_was_repeats_nothing(clock: Clock) -> None:
    """guarantees A17. The second connection sends a large transaction from its first record on, and breaks as well."""
    for gap in range(1, 60):
        wal = Wal()
        wal.commit(numbered("a", 60))
        world = World(wal, clock, room=100)
        world.fuse.crashes = dict.fromkeys([300, 300 + gap, 300 + 2 * gap], world.connection_breaks_alone)
        world.live()
        world.verify()
        assert world.repetitions() == 0, f"it broke every {gap} steps"


@pytest.mark.parametrize("room", [1, 7])
def test_memory_is_bounded_by_the_room_of_the_sink_however_large_the_transaction(clock: Clock, room: int) -> None:
    """The source refuses to be read while the relay has a message that found no room."""
    wal = Wal()
    wal.commit(numbered("a", 2000))
    world = World(wal, clock, room=room)
    world.live()
    world.verify()
