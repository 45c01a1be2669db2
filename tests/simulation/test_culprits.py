"""A record that cannot be published stops the relay, and everything before it is published and confirmed: by the first
process as by each one that a supervisor starts after it.
"""

from collections.abc import Callable
from random import Random

import pytest

from tests.simulation.clock import Clock
from tests.simulation.test_crashes import KINDS, random_wal, small_wal
from tests.simulation.test_exactly_once import ALL_KINDS, ExactlyOnceWorld, MakeWorld, cut, make_world
from tests.simulation.wal import Event, Wal, numbered
from tests.simulation.world import World
from walrelay.errors import Fatal, Refused
from walrelay.lsn import LSN

__all__ = ["cut", "make_world"]

Spoil = Callable[[World, Event], None]


def refused(world: World, culprit: Event) -> None:
    world.broker.refused = {culprit.payload}


def unreadable(world: World, culprit: Event) -> None:
    world.unreadable = culprit


def cured(world: World) -> None:
    world.unreadable, world.slot.due = None, 0.7
    world.broker.refused = set()


def end_before(wal: Wal, culprit: Event) -> LSN:
    """Where the last whole transaction with events before the culprit's ends."""
    end = wal.start
    for transaction in wal.transactions:
        if culprit in transaction.events:
            return end
        end = transaction.end_lsn if transaction.events else end
    raise AssertionError("no such event")


def before(wal: Wal, culprit: Event) -> list[Event]:
    return wal.events[: wal.events.index(culprit)]


@pytest.mark.parametrize("spoil", [refused, unreadable])
@pytest.mark.parametrize("survives", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_at_least_once_everything_before_the_culprit_is_published_and_confirmed(
    clock: Clock, spoil: Spoil, survives: bool, seed: int
) -> None:
    for number in range(len(small_wal().events)):
        world = World(small_wal(), clock, seed)
        culprit = world.wal.events[number]
        if spoil is unreadable and number == 2:
            continue  # a logical message, which the simulated decoder reads all the same
        spoil(world, culprit)
        world.broker.survives = survives
        world.slot.due = 0
        for process in range(3):
            with pytest.raises(Fatal, match=culprit.id if spoil is refused else "not an outbox record"):
                world.live()
            missing = [event.id for event in before(world.wal, culprit) if not world.arrived(event.payload)]
            assert not missing, f"process {process} ended at {culprit.id} without {missing}"
            assert world.slot.confirmed >= end_before(world.wal, culprit)
            assert not world.arrived(culprit.payload)
            if process == 0:
                repeated = world.repetitions_before(end_before(world.wal, culprit))
        assert world.repetitions_before(end_before(world.wal, culprit)) == repeated, "a crash loop repeats"
        cured(world)
        world.live()
        world.verify()


@pytest.mark.parametrize("spoil", [refused, unreadable])
@pytest.mark.parametrize("seed", range(3))
def test_exactly_once_everything_before_the_culprit_is_committed_by_the_record(
    make_world: MakeWorld, spoil: Spoil, seed: int
) -> None:
    for number in range(len(small_wal().events)):
        if spoil is unreadable and number == 2:
            continue
        world = make_world(small_wal(), seed)
        culprit = world.wal.events[number]
        spoil(world, culprit)
        for _ in range(3):
            with pytest.raises(Fatal):
                world.live()
            committed = [message.value for message in world.groups.committed]
            assert committed == [event.payload for event in before(world.wal, culprit)]
            assert world.slot.confirmed >= end_before(world.wal, culprit)
        cured(world)
        world.live()
        world.verify()


@pytest.mark.parametrize("seed", range(40))
def test_random_histories_with_a_culprit_and_many_crashes_lose_nothing_before_it(clock: Clock, seed: int) -> None:
    random = Random(seed)
    world = World(random_wal(random), clock, seed, room=random.randint(1, 20), batch=random.randint(1, 15))
    break_before_a_culprit(world, random, KINDS)
    world.live()
    world.verify()


@pytest.mark.parametrize("seed", range(40))
def test_exactly_once_with_a_culprit_and_many_crashes_commits_each_event_once(make_world: MakeWorld, seed: int) -> None:
    random = Random(seed)
    world = make_world(random_wal(random), seed, room=random.randint(1, 20), batch=random.randint(1, 15))
    world.groups.deaf = random.choice([0.0, 0.3])
    break_before_a_culprit(world, random, ALL_KINDS)
    world.live()
    world.verify()


def break_before_a_culprit(world: World, random: Random, kinds: list[str]) -> None:
    """Processes that break anywhere, until one of them ends at the culprit, which is cured then."""
    if not world.wal.events:
        return
    culprit = random.choice(world.wal.events)
    refused(world, culprit)
    world.broker.survives = random.choice([True, False])
    for step in random.sample(range(1, 400), k=random.randint(0, 8)):
        world.fuse.crashes[step] = getattr(world, random.choice(kinds))
    with pytest.raises(Refused):
        world.live()
    missing = [event.id for event in before(world.wal, culprit) if not world.arrived(event.payload)]
    assert not missing, f"ended at {culprit.id} without {missing}"
    cured(world)


def test_of_two_culprits_the_first_is_told(make_world: MakeWorld, clock: Clock) -> None:
    wal = Wal()
    wal.commit(numbered("a", 30))
    for world in (World(wal, clock, room=30, batch=40), make_world(wal, room=30, batch=40)):
        world.broker.refused = {wal.events[20].payload, wal.events[10].payload}
        with pytest.raises(Refused, match=r"record a11 at .*:10 "):
            world.live()
        assert sum(world.broker.durable.values()) >= 10
        assert isinstance(world, ExactlyOnceWorld) or world.slot.confirmed == wal.start
