"""From one run of a process to the next, and from one process to another: what is held, resumed, and let go of.

Each schedule is a function of the world that it is for, so that `test_mutants` can put it to one that is broken.
"""

from collections.abc import Callable
from random import Random

import pytest

from tests.simulation.clock import Clock
from tests.simulation.fuse import boundary
from tests.simulation.process import HOLD
from tests.simulation.slot import FusedSource, FusedStream
from tests.simulation.test_crashes import KINDS, small_wal
from tests.simulation.test_exactly_once import ExactlyOnceWorld, MakeWorld, make_world
from tests.simulation.wal import Wal, numbered
from tests.simulation.world import World
from walrelay.errors import Disconnected, NotKept
from walrelay.lsn import LSN
from walrelay.model import RelayPosition
from walrelay.source.contract import Positions
from walrelay.wiring import PositionPlace, Wiring

__all__ = ["make_world"]

Make = Callable[[Wal, Clock, int], World]


def steps(make: Make, clock: Clock, seed: int) -> range:
    """Those of a life without a crash."""
    world = make(small_wal(), clock, seed)
    world.live()
    world.verify()
    return range(1, world.fuse.burnt + 1)


def breaks_at(
    world: World, step: int, seconds: float, then: Callable[[], None], *, takes_nothing: bool = False
) -> None:
    """Only the connection breaks, and the next one takes so long; the client library goes on meanwhile, though the
    broker may take nothing. `then` comes before there is a connection again.
    """

    def hangs() -> None:
        world.connecting = lambda: None
        until = world.clock() + seconds
        while world.clock() < until:
            for sink in world.sinks:
                sink.sends()
            world.clock.wait(0.1)
        then()

    def breaks() -> None:
        if isinstance(world.fuse.at, FusedStream | FusedSource):
            world.connecting = hangs
            world.broker.held.update({"early", "late"} if takes_nothing else ())
        world.connection_breaks_alone()

    world.fuse.crashes[step] = breaks


@pytest.mark.parametrize("seed", range(3))
def test_a_sink_that_is_held_over_a_broken_connection_goes_on_and_nothing_comes_again(clock: Clock, seed: int) -> None:
    held_and_resumed(World, clock, seed)


def held_and_resumed(make: Make, clock: Clock, seed: int) -> None:
    for step in steps(make, clock, seed):
        world = make(small_wal(), clock, seed)
        breaks_at(world, step, 0.5, world.broker.held.clear, takes_nothing=True)
        world.live()
        world.verify()
        assert len(world.sinks) == 1, f"it broke at step {step}"
        assert world.repetitions() == 0, f"it broke at step {step}"


@pytest.mark.parametrize("seed", range(3))
def test_a_sink_that_is_held_too_long_is_let_go_of_though_no_connection_is_there_yet(clock: Clock, seed: int) -> None:
    """What it still held does not reach the broker while another instance leads."""
    held_too_long(World, clock, seed)


def held_too_long(make: Make, clock: Clock, seed: int) -> None:
    held = 0
    for step in steps(make, clock, seed):
        world = make(small_wal(), clock, seed)
        world.alone = False

        def another_leads(world: World = world, turns: int = step % 30) -> None:
            world.broker.held.clear()
            world.broker.pace = 1.0
            world.stopped_after(turns)
            world.sinks[0].sends()

        breaks_at(world, step, HOLD + 1, another_leads, takes_nothing=True)
        world.live()
        world.verify()
        held += len(world.sinks) == 3
    assert held, "no sink was held"


@pytest.mark.parametrize("seed", range(3))
def test_another_instance_that_takes_over_in_time_costs_the_sink_that_is_held_and_else_it_goes_on(
    clock: Clock, seed: int
) -> None:
    taken_over(World, clock, seed)


def taken_over(make: Make, clock: Clock, seed: int) -> None:
    """What the slot is past since was published by the other one; what it is not, nobody knows but who holds it."""
    outcomes = set()
    for step in steps(make, clock, seed):
        world = make(small_wal(), clock, seed)
        world.alone = False
        expected: list[int] = []

        def another_leads(world: World = world, expected: list[int] = expected, step: int = step) -> None:
            random = Random(step)
            before, broken = world.slot.confirmed, world.stream
            assert broken is not None
            assert broken.ended is not None
            for _ in range(random.randint(1, 3)):
                world.killed_after(random.randint(0, 12))
            led = world.slot.confirmed > before
            late = clock() - broken.ended > HOLD
            expected.append(len(world.sinks) + (led or late))
            outcomes.add(led)

        breaks_at(world, step, 0.2, another_leads)
        world.live()
        world.verify()
        if expected:
            assert [len(world.sinks)] == expected, f"it broke at step {step}"
    assert outcomes == {True, False}


def test_an_ousted_leader_is_not_surprised_that_another_one_got_further(clock: Clock) -> None:
    world = ousted(World, clock, 0)
    world.live()
    world.verify()
    assert world.seen.notices == []


@pytest.mark.parametrize("seed", range(5))
def test_an_ousted_leader_does_not_go_by_what_it_confirmed_before_when_the_server_lost_that(
    clock: Clock, seed: int
) -> None:
    """What the server writes there next are other events."""
    ousted_from_a_server_that_loses_wal(World, clock, seed)


def ousted_from_a_server_that_loses_wal(make: Make, clock: Clock, seed: int) -> None:
    def loses_wal() -> None:
        wal, confirmed = world.wal, world.wal.transactions[-1].commit_lsn  # by the one that was ousted
        world.slot.lose_wal(wal.entries[1].end_lsn)
        wal.commit(numbered("n", 10))
        wal.elsewhere(confirmed - wal.end)
        wal.commit("n11")
        raise Disconnected("the server crashed")

    world = ousted(make, clock, seed, loses_wal)
    world.live()
    assert world.done()
    assert world.first_deliveries("n") == [event.payload for event in world.wal.events if event.key == "n"]


def ousted(make: Make, clock: Clock, seed: int, then: Callable[[], None] = lambda: None) -> World:
    """Its connection breaks when all is confirmed; another one leads when it is back, and gets further."""
    wal = small_wal()
    world = make(wal, clock, seed)
    world.alone = False

    def another_leads() -> None:
        wal.commit("a9 b9")
        world.stop = world.done
        world.run_process()
        then()

    def breaks_when_done() -> bool:
        if world.done() and world.rival is None:
            assert world.stream is not None
            world.stream.given_up()
            world.rival = another_leads
        return False

    world.stop = breaks_when_done
    return world


class KeepingWorld(World):
    """The relay keeps a position of its own, in a place that is full now and then, or slow."""

    position: RelayPosition | None = None

    @property
    def wiring(self) -> Wiring:
        return super().wiring._replace(position=PositionPlace("file"))

    def positions(self) -> Positions:
        return _Place(self)

    def _witness(self, lsn: LSN) -> None:
        super()._witness(lsn)
        kept = self.wal.start if self.position is None else self.position.lsn
        assert lsn <= kept, f"PostgreSQL was told {lsn}, but only {kept} is kept"


class _Place:
    """Implements `walrelay.source.contract.Positions`."""

    def __init__(self, world: KeepingWorld) -> None:
        self.fuse, self._world = world.fuse, world

    def fence(self) -> bool:
        return True

    def trouble(self) -> str:
        return ""

    def last(self) -> RelayPosition | None:
        return self._world.position

    @boundary
    def keep(self, position: RelayPosition) -> LSN:
        chance = self._world.random.random()
        if chance < 0.1:
            raise NotKept("no space")
        if chance < 0.3:
            return self._world.wal.start  # not yet
        self._world.position = position
        return position.lsn


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kind", KINDS)
def test_a_position_is_kept_before_postgresql_is_told(clock: Clock, kind: str, seed: int) -> None:
    kept_before_told(KeepingWorld, clock, kind, seed)


def kept_before_told(make: Make, clock: Clock, kind: str, seed: int) -> None:
    for step in steps(make, clock, seed):
        world = make(small_wal(), clock, seed)
        world.fuse.crashes[step] = getattr(world, kind)
        world.live()
        world.verify()


@pytest.mark.parametrize("kind", ["process_dies", "another_one_leads"])
def test_what_a_zombie_has_asked_for_is_decided_before_the_position_is_read(make_world: MakeWorld, kind: str) -> None:
    """It died in the middle of a commit, or is frozen there: that happens, or never will, before anything else."""
    zombies(make_world, kind)


def zombies(make_world: MakeWorld, kind: str) -> None:
    undecided = 0
    for step in range(1, 300, 6):
        world = make_world(small_wal(), step)
        world.groups.deaf = 0.6

        def strikes(world: ExactlyOnceWorld = world) -> None:
            """At the first step from there on at which nobody knows whether a commit will happen."""
            nonlocal undecided
            if not world.groups.asked:
                world.fuse.crashes[world.fuse.burnt + 1] = strikes
                return
            undecided += 1
            getattr(world, kind)()

        world.fuse.crashes[step] = strikes
        world.live()
        world.verify()
    assert undecided > 10


class FencedWorld(KeepingWorld):
    """The position is at a broker that fences off whoever kept it before."""

    answers_at = 0.0  # by the clock

    @property
    def wiring(self) -> Wiring:
        return super().wiring._replace(position=PositionPlace("topic"))

    def positions(self) -> Positions:
        return _FencedPlace(self)


class _FencedPlace(_Place):
    def __init__(self, world: FencedWorld) -> None:
        super().__init__(world)
        self._fenced_world = world

    def fence(self) -> bool:
        self._fenced_world.clock.wait(1.0)
        return self._fenced_world.clock() >= self._fenced_world.answers_at

    def trouble(self) -> str:
        return "no coordinator"


def test_a_broker_that_fences_nobody_off_for_long_costs_no_lead_and_nothing_is_read_until_it_does(
    clock: Clock,
) -> None:
    world = FencedWorld(small_wal(), clock)
    world.answers_at = clock() + 45
    connections: list[FusedStream | None] = []
    world.connecting = lambda: connections.append(world.stream)
    world.live()
    world.verify()
    assert len(connections) == 1
    assert len(world.slot.starts) == 1
    (text,) = world.seen.retries
    assert "the broker has not answered the request to fence off earlier producers: no coordinator" in text
