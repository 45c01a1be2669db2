"""The sink that writes groups with their position, over a store as cruel as a database: each event once, in order."""

from collections.abc import Callable, Sequence
from random import Random

import pytest

from tests.simulation.breaking import broken_at_each_step
from tests.simulation.clock import Clock
from tests.simulation.fuse import Fuse, boundary
from tests.simulation.groups import Group, TransactionalBroker
from tests.simulation.test_crashes import one_step_in, random_wal, small_wal
from tests.simulation.test_exactly_once import ALL_KINDS, ExactlyOnceWorld, large_wal
from tests.simulation.wal import Wal
from walrelay.errors import Refused, Retryable, Superseded
from walrelay.model import Message, RelayPosition, System
from walrelay.observe import Retrying
from walrelay.publish import ExactlyOnceSink
from walrelay.sinks.group_contract import Culprit, GroupSize
from walrelay.sinks.groups import GroupedSink
from walrelay.sinks.hosting.sink import Misfit

_OWNER = "owner"


class FakeStore:
    """What a group was begun with becomes durable, or not, also when its run is gone, until the next run's fence."""

    fences = True

    def __init__(self, broker: TransactionalBroker, fuse: Fuse, clock: Clock) -> None:
        self.fuse, self._broker, self._clock = fuse, broker, clock
        self._epoch = 0
        self._last: RelayPosition | None = None
        self._writes = False
        self.largest = 0  # group

    @boundary
    def fence(self, timeout: float) -> bool:
        self._writes = False
        if self._unlucky(max(timeout, 0.01)):
            return False
        if self._epoch:
            self._is_owner()
        self._epoch = self._broker.fence(_OWNER) if self.fences else 1
        self._last = self._broker.position
        return True

    def last(self) -> RelayPosition | None:
        return self._last

    def misfit(self, message: Message) -> Misfit | None:
        if message.value in self._broker.refused and self._broker.random.random() < 0.5:
            return Misfit("it does not fit", "Make it smaller.")
        return None

    @boundary
    def begin(self, messages: Sequence[Message], position: RelayPosition) -> None:
        assert not self._writes, "two groups at a time"
        self._is_owner()
        self.largest = max(self.largest, len(messages))
        self._broker.asked[_OWNER] = Group(self._broker.sent, tuple(messages), position)
        self._broker.sent += len(messages)
        self._writes = True

    @boundary
    def step(self, timeout: float) -> bool | Culprit:
        if not self._writes or self._unlucky(timeout):
            self._clock.wait(timeout)
            return False
        self._is_owner()
        refused = [
            number
            for number, message in enumerate(self._broker.asked[_OWNER].messages)
            if message.value in self._broker.refused
        ]
        if refused:
            del self._broker.asked[_OWNER]
            self._writes = False
            return Culprit(refused[0], "poison", "Make it smaller.")
        if self._broker.random.random() < self._broker.takes_back:
            raise Retryable("the connection is gone, and whether the group is there is not known")
        self._broker.commit(_OWNER)
        self._writes = False
        return True

    def descriptor(self) -> int | None:
        return None

    def trouble(self) -> str:
        return "the store is slow today"

    def close(self) -> None:
        self._writes = False

    def _is_owner(self) -> None:
        if self.fences and self._epoch != self._broker.epochs[_OWNER]:
            raise Superseded("a later run owns the store")

    def _unlucky(self, timeout: float) -> bool:
        return self._broker.random.random() < self._broker.deaf


class _Unfenced(FakeStore):
    """Lets whoever was before go on."""

    fences = False


class GroupedWorld(ExactlyOnceWorld):
    store: FakeStore
    store_type: type[FakeStore] = FakeStore
    grouped_type: type[GroupedSink] = GroupedSink

    def exactly_once_sink(self, system: System) -> ExactlyOnceSink:
        self.store = store = self.store_type(self.groups, self.fuse, self.clock)
        return self.grouped_type(store, GroupSize(self.groups.room, 2**20), system, "slot", self.counting)

    def store_breaks(self) -> None:
        """Whether its group is there is not known."""
        if isinstance(self.fuse.at, FakeStore):
            raise Retryable("the connection to the store broke")


MakeGroupedWorld = Callable[..., GroupedWorld]


@pytest.fixture
def make_world(clock: Clock) -> MakeGroupedWorld:
    return lambda wal, seed=0, **sizes: GroupedWorld(wal, clock, seed, **sizes)


@one_step_in(3)
@pytest.mark.parametrize("kind", ALL_KINDS)
def test_a_crash_at_any_step_writes_each_event_once(make_world: MakeGroupedWorld, kind: str, stride: int) -> None:
    broken_at_each_step(lambda: make_world(small_wal(), room=3), kind, first=1, stride=stride)


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("seed", range(100))
def test_random_histories_with_many_crashes_write_each_event_once(
    make_world: MakeGroupedWorld, seed: int, large: bool
) -> None:
    broken_at_random(make_world, seed, large_wal(Random(seed)) if large else random_wal(Random(seed)))


def broken_at_random(make_world: MakeGroupedWorld, seed: int, wal: Wal) -> None:
    random = Random(seed)
    world = make_world(wal, seed, room=random.randint(1, 20), batch=random.randint(1, 15))
    world.groups.deaf = random.choice([0.0, 0.3, 0.6])
    world.groups.takes_back = random.choice([0.0, 0.1])
    world.slot.chatty = random.choice([0.0, 0.3, 0.9])
    for step in random.sample(range(1, 600), k=random.randint(0, 12)):
        world.fuse.crashes[step] = getattr(world, random.choice(ALL_KINDS))
    world.live()
    world.verify()


@one_step_in(3)
def test_a_store_that_breaks_at_any_step_ends_no_run(make_world: MakeGroupedWorld, stride: int) -> None:
    def make() -> GroupedWorld:
        world = make_world(small_wal(), room=3)
        worlds.append(world)
        return world

    worlds: list[GroupedWorld] = []
    broken_at_each_step(make, "store_breaks", stride=stride)
    assert [each for world in worlds for each in world.seen.happenings if isinstance(each, Retrying)] == []


@pytest.mark.parametrize("room", [1, 3, 10])
def test_a_large_transaction_is_cut_into_groups_of_the_size_that_is_set(
    make_world: MakeGroupedWorld, room: int
) -> None:
    world = make_world(large_wal(Random(1)), room=room, batch=100)
    world.live()
    world.verify()
    assert world.store.largest == room


@pytest.mark.parametrize("seed", range(100))
def test_a_store_that_breaks_often_has_each_event_once(make_world: MakeGroupedWorld, seed: int) -> None:
    often_broken(make_world, seed)


def often_broken(make_world: MakeGroupedWorld, seed: int, grouped_type: type[GroupedSink] = GroupedSink) -> None:
    random = Random(seed)
    world = make_world(random.choice([large_wal, random_wal])(random), seed, room=random.randint(1, 20), batch=5)
    world.grouped_type = grouped_type
    world.groups.deaf, world.groups.takes_back = random.choice([0.0, 0.5]), random.choice([0.0, 0.2])
    for step in random.sample(range(1, 900), k=random.randint(5, 80)):
        world.fuse.crashes[step] = getattr(world, random.choice(["store_breaks", *ALL_KINDS]))
    world.live()
    world.verify()


class _WritesAgain(GroupedSink):
    """Takes the group that was being written for one that is not there."""

    def _mend(self, timeout: float) -> None:
        if self._fenced(timeout):
            self._there = self._store.last()
            if self._writing is not None:
                self._begin()


class _Believes(GroupedSink):
    """Takes the group that was being written for durable."""

    def _mend(self, timeout: float) -> None:
        if self._fenced(timeout) and self._writing is not None:
            taken, self._durable = self._writing
            self._writing = None
            self._settled.update(each.ticket for each in taken)


@pytest.mark.parametrize("grouped_type", [_WritesAgain, _Believes])
def test_a_sink_that_guesses_what_became_of_a_group_is_caught(
    make_world: MakeGroupedWorld, grouped_type: type[GroupedSink]
) -> None:
    def all_histories() -> None:
        for seed in range(100):
            often_broken(make_world, seed, grouped_type)

    with pytest.raises(AssertionError, match=r"not what .* says|but the broker does not have"):
        all_histories()


def test_nothing_of_the_group_with_a_refused_message_is_seen_and_all_of_it_when_it_is_taken(
    make_world: MakeGroupedWorld,
) -> None:
    for number, event in enumerate(small_wal().events):
        world = make_world(small_wal(), number, room=1 + number % 4)
        world.groups.refused = {event.payload}
        with pytest.raises(Refused):
            world.live()
        world.groups.refused.clear()
        world.live()
        world.verify()


def test_a_store_without_a_fence_has_events_twice(make_world: MakeGroupedWorld) -> None:
    """What the schedules are worth: one that lets an earlier run write is caught."""

    def unfenced(*args: object, **sizes: int) -> GroupedWorld:
        world = make_world(*args, **sizes)
        world.store_type = _Unfenced
        return world

    def all_histories() -> None:
        for seed in range(100):
            broken_at_random(unfenced, seed, random_wal(Random(seed)))

    with pytest.raises(AssertionError, match=r"not what .* says"):
        all_histories()
