"""Refused messages become dead letters, whatever breaks and wherever: nothing else is lost, no key is reordered."""

from random import Random

import pytest

from tests.simulation.clock import Clock
from tests.simulation.test_crashes import KINDS, one_step_in, random_wal, small_wal
from tests.simulation.wal import Event, Wal, numbered
from tests.simulation.world import World
from walrelay.wiring import Policy

ASIDE = Policy("dead_letter")
POLICIES = {
    "follow": ASIDE,
    "block": ASIDE._replace(block_key=True),
    "tried three times": ASIDE._replace(attempts=3),
    "both": ASIDE._replace(topic="dead letters"),
    "topic": ASIDE._replace(table=False, topic="dead letters"),
    "skip": Policy("skip"),
}
FAILING_OVER = ["follow", "block", "both", "skip"]
POISON = {"a2", "c2", "c3"}


def world_of(wal: Wal, clock: Clock, policy: Policy, *, survives: bool, seed: int = 0, **room: int) -> World:
    world = World(wal, clock, seed, **room)
    world.policy = policy
    world.broker.survives = survives
    world.broker.refused = {Event(event.id).payload for event in wal.events if event.id in POISON}
    return world


def verify(world: World) -> None:
    """Every event is at its topic, or a letter, and the letters are those that have to be."""
    letters = world.letters.statuses()
    poison = [event.id for event in world.wal.events if event.payload in world.broker.refused]
    dead = {message.value for message in world.broker.messages if message.topic == world.broker.dead_letters}
    if world.policy.table and not world.policy.block_key:
        assert list(letters) == poison
        assert "blocked" not in letters.values()
    if world.policy.topic:
        assert dead == world.broker.refused
    assert world.slot.confirmed == world.wal.end
    for key in {event.key for event in world.wal.events}:
        committed = [event for event in world.wal.events if event.key == key]
        if world.policy.block_key:
            first = next((n for n, event in enumerate(committed) if event.id in poison), len(committed))
            waiting = [event.id for event in committed[first:]]
            assert [each for each in letters if Event(each).key == key] == waiting
            assert [letters[event] for event in waiting] == ["waiting", *["blocked"] * len(waiting)][: len(waiting)]
            committed = committed[:first]
        expected = [event.payload for event in committed if event.id not in poison]
        delivered = [m.value for m in world.of_key(key) if m.topic != world.broker.dead_letters]
        assert list(dict.fromkeys(delivered)) == expected


@pytest.mark.parametrize("survives", [False, True])
@pytest.mark.parametrize("policy", POLICIES)
def test_refused_messages_are_set_aside_and_everything_else_arrives_in_order(
    clock: Clock, policy: str, survives: bool
) -> None:
    world = world_of(small_wal(), clock, POLICIES[policy], survives=survives)
    world.live()
    verify(world)
    assert [letter.attempts for letter in world.letters.kept.values() if letter.status == "waiting"] == [
        world.policy.attempts
    ] * (3 if policy in ("follow", "tried three times", "both") else 2 if policy == "block" else 0)


@one_step_in(9)
@pytest.mark.parametrize("survives", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("policy", POLICIES)
def test_a_crash_at_any_step_leaves_each_letter_there_once_and_loses_nothing(
    clock: Clock, policy: str, kind: str, survives: bool, stride: int
) -> None:
    def world() -> World:
        return world_of(small_wal(), clock, POLICIES[policy], survives=survives)

    without = world()
    without.live()
    first = 1 + (2 * KINDS.index(kind) + survives) % stride
    for step in range(first, without.fuse.burnt + 1, stride):
        crashing = world()
        crashing.fuse.crashes[step] = getattr(crashing, kind)
        crashing.live()
        verify(crashing)


@pytest.mark.parametrize("seed", range(60))
def test_random_histories_with_many_crashes_and_many_refusals(clock: Clock, seed: int) -> None:
    random = Random(seed)
    policy = random.choice(list(POLICIES.values()))
    world = world_of(
        *(random_wal(random), clock, policy),
        survives=random.random() < 0.5,
        seed=seed,
        room=random.randint(1, 20),
        batch=random.randint(1, 15),
    )
    events = sorted({event.payload for event in world.wal.events})
    world.broker.refused = set(random.sample(events, k=random.randint(0, len(events) // 2)))
    for step in random.sample(range(1, 600), k=random.randint(0, 12)):
        world.fuse.crashes[step] = getattr(world, random.choice(KINDS))
    world.live()
    verify(world)


@one_step_in(3)
@pytest.mark.parametrize("survives", [False, True])
@pytest.mark.parametrize("policy", FAILING_OVER)
def test_a_failover_at_any_step_loses_no_dead_letter_that_the_slot_is_past(
    clock: Clock, policy: str, survives: bool, stride: int
) -> None:
    """The standby copies the slot whenever it likes, and hangs now and then when a letter is to reach it."""

    def world() -> World:
        world = world_of(small_wal(), clock, POLICIES[policy], survives=survives)
        world.letters.hangs = lambda: world.random.random() < 0.3
        return world

    without = world()
    without.live()
    verify(without)
    first = 1 + (2 * FAILING_OVER.index(policy) + survives) % stride
    for step in range(first, without.fuse.burnt + 1, stride):
        failing = world()
        failing.fuse.crashes[step] = failing.everything_fails_over
        failing.live()
        verify(failing)


@one_step_in(7)
@pytest.mark.parametrize("survives", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("policy", ["both", "topic", "follow"])
def test_a_closed_topic_and_a_crash_at_any_step_leave_a_dead_letter_for_each_message(
    clock: Clock, policy: str, kind: str, survives: bool, stride: int
) -> None:
    """Its messages are not offered any more: their dead letters take their place, if there is room for them."""

    def world() -> World:
        world = world_of(small_wal(), clock, POLICIES[policy], survives=survives, room=2)
        world.broker.closed = {"early"}
        world.broker.refused = {event.payload for event in world.wal.events if event.topic == "early"}
        return world

    without = world()
    without.live()
    first = 1 + (2 * KINDS.index(kind) + survives) % stride
    for step in range(first, without.fuse.burnt + 1, stride):
        crashing = world()
        crashing.fuse.crashes[step] = getattr(crashing, kind)
        crashing.live()
        verify(crashing)


def test_a_burst_of_refusals_does_not_cost_a_run_each_where_the_sink_survives_them(clock: Clock) -> None:
    wal = Wal()
    wal.commit(numbered("a", 200))
    world = world_of(wal, clock, ASIDE, survives=True)
    world.broker.refused = {event.payload for event in wal.events if int(event.id[1:]) % 2}
    world.live()
    verify(world)
    assert len(world.slot.starts) == 1


@pytest.mark.parametrize("survives", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("policy", ["follow", "both", "skip"])
def test_what_is_no_record_is_kept_once_and_a_crash_at_any_step_loses_neither_it_nor_anything_else(
    clock: Clock, policy: str, kind: str, survives: bool
) -> None:
    def world() -> World:
        world = world_of(small_wal(), clock, POLICIES[policy], survives=survives)
        world.undecoded = {Event(id_).payload for id_ in ("a1", "c2", "c3")}
        world.broker.refused = {Event("a2").payload}
        return world

    without = world()
    without.live()
    for step in range(1, without.fuse.burnt + 1, 6):
        crashing = world()
        crashing.fuse.crashes[step] = getattr(crashing, kind)
        crashing.live()
        verify_undecoded(crashing)


def verify_undecoded(world: World) -> None:
    spoilt = [event for event in world.wal.events if event.payload in world.undecoded]
    elsewhere = {event.payload for event in spoilt} | world.broker.refused
    assert spoilt
    dead = {message.value for message in world.broker.messages if message.topic == world.broker.dead_letters}
    if world.policy.table:
        assert world.letters.raw == [event.payload for event in spoilt]
    if world.policy.topic:
        assert dead == elsewhere
    assert world.slot.confirmed == world.wal.end
    for key in {event.key for event in world.wal.events}:
        expected = [event.payload for event in world.wal.events if event.key == key and event.payload not in elsewhere]
        delivered = [m.value for m in world.of_key(key) if m.topic != world.broker.dead_letters]
        assert list(dict.fromkeys(delivered)) == expected
