"""The shares of instances: even, the same for all, few relays move; and however looks interleave, peace comes."""

import random
from collections import Counter
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walrelay.postgres.candidates import Look
from walrelay.relay.shares import STAY, Duty, rank, shares

LOOK = 0.25  # seconds from one look of an instance to its next

numbers = st.integers(0, 2**31 - 1)
fleets = st.lists(numbers, min_size=1, max_size=9, unique=True)
counts = st.integers(1, 60)


def relays(count: int) -> list[str]:
    return [f"relay-{n}" for n in range(count)]


@given(counts, fleets)
def test_shares_are_within_one_of_even(count: int, fleet: list[int]) -> None:
    made = shares(dict.fromkeys(relays(count), fleet))
    assert made.keys() == {*relays(count)}
    held = Counter(made.values())
    assert max(held[each] for each in fleet) - min(held[each] for each in fleet) <= 1


@given(counts, fleets, st.randoms(use_true_random=False))
def test_every_instance_computes_the_same(count: int, fleet: list[int], rng: random.Random) -> None:
    names, others = relays(count), [*fleet]
    made = shares(dict.fromkeys(names, fleet))
    rng.shuffle(names)
    rng.shuffle(others)
    assert shares(dict.fromkeys(names, others)) == made


@given(counts, fleets, numbers)
def test_few_relays_move_when_an_instance_comes_or_goes(count: int, fleet: list[int], newcomer: int) -> None:
    """At least the share of one has to move; a few others move so that all stay even."""
    before = shares(dict.fromkeys(relays(count), frozenset({*fleet} - {newcomer})))
    after = shares(dict.fromkeys(relays(count), frozenset({*fleet, newcomer})))
    moved = sum(before[name] != after[name] for name in before)
    assert moved <= 2 * ceil(count / len({*fleet, newcomer})) + 4


@given(st.dictionaries(st.sampled_from(relays(30)), st.frozensets(st.integers(1, 5)), max_size=30))
def test_a_relay_is_for_one_of_its_candidates(candidates: dict[str, frozenset[int]]) -> None:
    made = shares(candidates)
    assert made.keys() == {name for name, there in candidates.items() if there}
    assert all(instance in candidates[name] for name, instance in made.items())


class World:
    """Instances that look one after the other, in any order, at the leads of some relays. `unfit`: pairs of instance
    and relay that fail as soon as they lead, and try again after up to `pause`
    seconds.
    """

    def __init__(self, count: int, unfit: set[tuple[int, str]], pause: float = 0) -> None:
        self.now, self.unfit, self.pause = 0.0, unfit, pause
        self.leader: dict[str, int | None] = dict.fromkeys(relays(count))
        self.queues: dict[str, list[int]] = {name: [] for name in self.leader}
        self.duties: dict[int, dict[str, Duty]] = {}
        self.running: set[tuple[int, str]] = set()
        self.pauses: dict[str, float] = {}
        self.moves = 0

    def join(self, instance: int) -> None:
        self.duties[instance] = {name: Duty() for name in self.leader}

    def die(self, instance: int) -> None:
        del self.duties[instance]
        for name in self.leader:
            self._end(instance, name)

    def round(self, rng: random.Random) -> None:
        for instance in rng.sample([*self.duties], len(self.duties)):
            self._look(instance)
        self.now += LOOK
        for instance, name in self.running & self.unfit:
            if self.leader[name] == instance:
                self._end(instance, name)
                self.running.add((instance, name))
                self.pauses[name] = self.now + rng.uniform(self.pause / 2, self.pause)
            elif instance not in self.queues[name] and self.now >= self.pauses[name]:
                self._begin(instance, name)

    def _look(self, me: int) -> None:
        there = frozenset(self.duties)
        owners = shares(dict.fromkeys(self.leader, there))
        for name, duty in self.duties[me].items():
            look = Look(there, self.leader[name] is not None, bool(self.queues[name]))
            running, mine = (me, name) in self.running, owners[name] == me
            match duty.due(look, self.now, running=running, mine=mine, rank=rank(name, me, owners[name], there)):
                case "give up":
                    self._end(me, name)
                case "begin" | "stand in":
                    self._begin(me, name)

    def _begin(self, instance: int, name: str) -> None:
        self.running.add((instance, name))
        self.queues[name].append(instance)
        self._grant(name)

    def _end(self, instance: int, name: str) -> None:
        self.running.discard((instance, name))
        self.queues[name] = [each for each in self.queues[name] if each != instance]
        if self.leader[name] == instance:
            self.leader[name] = None
            self._grant(name)

    def _grant(self, name: str) -> None:
        if self.leader[name] is None and self.queues[name]:
            self.leader[name] = self.queues[name].pop(0)
            self.moves += 1


@pytest.mark.parametrize("seed", range(20))
def test_whoever_comes_and_goes_peace_comes_and_lasts(seed: int) -> None:
    rng = random.Random(seed)
    world, fleet = World(rng.randint(1, 20), set()), rng.sample(range(1, 1000), 6)
    for instance in fleet[:3]:
        world.join(instance)
    for _ in range(20):
        here = [*world.duties]
        if len(here) > 1 and rng.random() < 0.5:
            world.die(rng.choice(here))
        elif away := [each for each in fleet if each not in here]:
            world.join(rng.choice(away))
        for _ in range(rng.randint(0, 4)):
            world.round(rng)
    for _ in range(5 + int(STAY / LOOK)):
        world.round(rng)
    assert world.leader == shares(dict.fromkeys(world.leader, frozenset(world.duties)))
    moves = world.moves
    for _ in range(int(STAY / LOOK)):
        world.round(rng)
    assert world.moves == moves, "nothing happened, and leads moved"


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("longest", [1.0, 30.0])
def test_a_relay_that_its_instance_cannot_lead_is_led_by_another_nearly_all_the_time(seed: int, longest: float) -> None:
    rng = random.Random(seed)
    names, fleet = relays(9), rng.sample(range(1, 1000), 3)
    owners = shares(dict.fromkeys(names, fleet))
    world = World(9, {(owners[name], name) for name in names[:2]}, longest)
    for instance in fleet:
        world.join(instance)
    led, rounds = Counter[str](), int(5 * STAY / LOOK)
    for _ in range(rounds):
        world.round(rng)
        led.update(
            name for name, leader in world.leader.items() if leader is not None and (leader, name) not in world.unfit
        )
    assert all(led[name] > 0.8 * rounds for name in names), led
    assert world.moves <= 9 + 2 * 5 * 6, "an instance that fails gets the lead once in a while, and not more often"
