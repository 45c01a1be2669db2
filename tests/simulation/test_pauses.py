"""Pauses between any two turns: nothing is read or published in one, and nothing is lost, repeated or out of order."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from random import Random

import pytest

from tests.simulation.clock import Clock
from tests.simulation.test_crashes import KINDS, random_wal
from tests.simulation.world import World
from walrelay.postgres.catalog import Catalog


class Pauses:
    """Implements `Pausing`: somebody pauses the relay now and then, for a while."""

    def __init__(self, world: World, often: float) -> None:
        self._world, self._often, self._random, self._wanted = world, often, Random(world.random.random()), False
        self.held = 0

    def while_leading(self, catalog: Catalog) -> AbstractContextManager[None]:
        return nullcontext()

    def asked(self) -> bool:
        self._wanted |= self._random.random() < self._often
        return self._wanted

    def hold(
        self, catalog: Catalog, still_leads: Callable[[], object], interval: float, stop: Callable[[], bool]
    ) -> None:
        world, published = self._world, self._world.broker.messages.copy()
        confirmed = world.slot.confirmed
        for _ in range(self._random.randint(1, 3)):
            still_leads()
            world.clock.wait(interval)
        assert (world.broker.messages, world.slot.confirmed) == (published, confirmed)
        self._wanted = False
        self.held += 1


def paused(clock: Clock, seed: int, often: float) -> tuple[World, Pauses]:
    random = Random(seed)
    world = World(random_wal(random), clock, seed, room=random.randint(1, 20), batch=random.randint(1, 15))
    world.broker.pace = random.choice([0.3, 0.5, 1.0])
    world.pausing = pauses = Pauses(world, often)
    return world, pauses


@pytest.mark.parametrize("seed", range(40))
def test_pauses_at_any_turn_repeat_nothing(clock: Clock, seed: int) -> None:
    world, _ = paused(clock, seed, often=0.1)
    world.live()
    world.verify()
    assert world.repetitions() == 0


@pytest.mark.parametrize("seed", range(60))
def test_pauses_and_crashes_lose_nothing_and_keep_the_order(clock: Clock, seed: int) -> None:
    world, _ = paused(clock, seed, often=0.1)
    for step in world.random.sample(range(1, 600), k=world.random.randint(1, 12)):
        world.fuse.crashes[step] = getattr(world, world.random.choice(KINDS))
    world.live()
    world.verify()


def test_there_are_pauses(clock: Clock) -> None:
    world, pauses = paused(clock, 7, often=0.5)
    world.live()
    world.verify()
    assert pauses.held > 1
