"""The shares of instances: even, the same for all, few relays move; and however looks interleave, peace comes."""

import random
from collections import Counter
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walrelay.postgres.candidates import Look
from walrelay.relay.shares import AT_ONCE, GRACE, PATIENCE, STAY, Duty, Upcoming, shares, steps

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
    """Instances that look one after the other, in any order, at the leads of some relays. `slow`: seconds that a relay
    takes at most until it asks for its lead. `unfit`: pairs of instance and relay that fail as soon as they lead, and
    try again after up to `pause` seconds.
    """

    def __init__(
        self, count: int, *, slow: float = 0, unfit: frozenset[tuple[int, str]] = frozenset(), pause: float = 0
    ) -> None:
        self.now, self.slow, self.unfit, self.pause = 0.0, slow, unfit, pause
        self.leader: dict[str, int | None] = dict.fromkeys(relays(count))
        self.queues: dict[str, list[int]] = {name: [] for name in self.leader}
        self.duties: dict[int, dict[str, Duty]] = {}
        self.upcoming: dict[int, Upcoming] = {}
        self.claims: set[tuple[int, str]] = set()
        self.running: set[tuple[int, str]] = set()
        self.asks: dict[tuple[int, str], float] = {}  # when a relay that has been begun asks for its lead
        self.moves = 0

    @property
    def shares(self) -> dict[str, int]:
        return shares(dict.fromkeys(self.leader, frozenset(self.duties)))

    def join(self, instance: int) -> None:
        self.duties[instance] = {}
        self.upcoming[instance] = Upcoming()

    def die(self, instance: int) -> None:
        del self.duties[instance], self.upcoming[instance]
        for name in self.leader:
            self.claims.discard((instance, name))
            self._end(instance, name)

    def round(self, rng: random.Random) -> None:
        for instance in rng.sample([*self.duties], len(self.duties)):
            self._look(instance, rng)
        self.now += LOOK
        for (instance, name), at in [*self.asks.items()]:
            if at <= self.now:
                del self.asks[instance, name]
                self.queues[name].append(instance)
                self._grant(name)
                self.upcoming[instance].done(name)
        for instance, name in sorted(self.running & self.unfit):
            if self.leader[name] == instance:
                self._end(instance, name)
                self.running.add((instance, name))
                self.asks[instance, name] = self.now + rng.uniform(self.pause / 2, self.pause)

    def _look(self, me: int, rng: random.Random) -> None:
        there = frozenset(self.duties)
        claimed = {name for instance, name in self.claims if instance != me}
        looks = {
            name: Look(there, leader is not None, bool(self.queues[name]), name in claimed)
            for name, leader in self.leader.items()
        }
        running = {name for name in self.leader if (me, name) in self.running}
        self.claims = {(instance, name) for instance, name in self.claims if instance != me}
        for name, step in steps(self.duties[me], looks, self.shares, running, me, self.upcoming[me], self.now):
            match step:
                case "give up":
                    self._end(me, name)
                case "begin" | "stand in":
                    self.running.add((me, name))
                    self.asks[me, name] = self.now + rng.uniform(0, self.slow)
                case "claim":
                    self.claims.add((me, name))

    def _end(self, instance: int, name: str) -> None:
        self.running.discard((instance, name))
        self.asks.pop((instance, name), None)
        self.queues[name] = [each for each in self.queues[name] if each != instance]
        if self.leader[name] == instance:
            self.leader[name] = None
            self._grant(name)

    def _grant(self, name: str) -> None:
        if self.leader[name] is None and self.queues[name]:
            self.leader[name] = self.queues[name].pop(0)
            self.moves += 1

    def peace(self, rng: random.Random, within: float) -> float:
        """Until each instance leads its share: after how many seconds."""
        begun = self.now
        while self.leader != self.shares:
            assert self.now - begun < within, f"there is no peace after {within} s"
            self.round(rng)
        return self.now - begun


# What a machine is that takes longer than GRACE to begin a relay: others stand in for relays that need nobody to.
@pytest.mark.parametrize(("slow", "within"), [(0.0, 3.0), (1.0, 5.0), (2 * GRACE, 20.0)])
@pytest.mark.parametrize("seed", range(20))
def test_whoever_comes_and_goes_peace_comes_soon_and_lasts(seed: int, slow: float, within: float) -> None:
    rng = random.Random(seed)
    world, fleet = World(rng.randint(1, 40), slow=slow), rng.sample(range(1, 1000), 6)
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
    world.peace(rng, within)
    moves = world.moves
    for _ in range(int(STAY / LOOK)):
        world.round(rng)
    assert world.moves == moves, "nothing happened, and leads moved"
    assert not world.claims


@pytest.mark.parametrize("seed", range(5))
def test_few_relays_at_a_time_are_without_a_leader_while_leads_move(seed: int) -> None:
    rng = random.Random(seed)
    world, fleet = World(60, slow=PATIENCE - 2 * LOOK), rng.sample(range(1, 1000), 3)
    world.join(fleet[0])
    world.peace(rng, 20)
    for instance in fleet[1:]:
        world.join(instance)
    while world.leader != world.shares:
        world.round(rng)
        assert sum(leader is None for leader in world.leader.values()) <= 2 * AT_ONCE
        assert world.now < 60


def test_what_nobody_leads_is_begun_although_many_claims_wait_for_an_answer() -> None:
    """Instances of the version before lead 40 relays and give none up; then they die."""
    rng, world = random.Random(1), World(40)
    world.leader = dict.fromkeys(world.leader, 0)
    world.join(7)
    for _ in range(int(10 / LOOK)):
        world.round(rng)
    assert len(world.claims) == 40
    world.leader = dict.fromkeys(world.leader)
    assert world.peace(rng, 5) <= 2 * LOOK


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("longest", [1.0, 30.0])
def test_a_relay_that_its_instance_cannot_lead_is_led_by_another_nearly_all_the_time(seed: int, longest: float) -> None:
    rng = random.Random(seed)
    names, fleet = relays(9), rng.sample(range(1, 1000), 3)
    owners = shares(dict.fromkeys(names, fleet))
    world = World(9, unfit=frozenset((owners[name], name) for name in names[:2]), pause=longest)
    for instance in fleet:
        world.join(instance)
    led, rounds = Counter[str](), int(5 * STAY / LOOK)
    for _ in range(rounds):
        world.round(rng)
        led.update(
            name for name, leader in world.leader.items() if leader is not None and (leader, name) not in world.unfit
        )
    assert all(led[name] > 0.8 * rounds for name in names), led
    assert world.moves <= 9 + 2 * 6 * 6, "an instance that fails gets the lead once in a while, and not more often"
