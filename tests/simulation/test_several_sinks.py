"""Several sinks in a relay: whatever breaks, each has all of its messages in order, and nothing is confirmed before all
have; while one stands still nothing of the others is lost or repeated.
"""

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any, cast

import pytest

from tests.simulation.breaking import broken_at_each_step
from tests.simulation.broker import FakeBroker, FakeSink
from tests.simulation.clock import Clock
from tests.simulation.process import Process, _DeadLettering
from tests.simulation.test_crashes import KINDS, one_step_in, random_wal, small_wal
from tests.simulation.wal import Event, Wal
from tests.simulation.world import World
from walrelay.dead_letters import DeadLetterTableWriter
from walrelay.dead_letters.wrapping import DeadLettering
from walrelay.errors import Retryable
from walrelay.model import Message, Receipt, Refusal
from walrelay.publish import SeveralSinks, Sink
from walrelay.route.rules import Condition, Rule, Rules
from walrelay.wiring import Policy

_KEYS = {"a": ("first",), "b": ("first", "second"), "c": ("second",), "d": ("first", "second")}
_SINKS = ("first", "second")
_ROUTES = (
    Rule("one", (Condition("aggregate_id", "one_of", ("a",)),), sinks=("first",)),
    Rule("other", (Condition("aggregate_id", "one_of", ("c",)),), sinks=("second",)),
    Rule("both", sinks=("first", "second")),
)


class _Opened:
    """The clients of one run, as the process looks after one."""

    def __init__(self, sinks: list[FakeSink]) -> None:
        self._sinks = sinks

    @property
    def owed(self) -> Message | None:
        return next((sink.owed for sink in self._sinks if sink.owed is not None), None)

    @owed.setter
    def owed(self, message: Message | None) -> None:
        for sink in self._sinks:
            sink.owed = message

    def vanish(self) -> None:
        for sink in self._sinks:
            sink.vanish()


class _SeveralProcess(Process):
    def sink(self) -> Sink:
        world = cast(SeveralWorld, self.world)
        sinks = {name: broker.connect(world.fuse, world.clock) for name, broker in world.brokers.items()}
        for sink in sinks.values():
            sink.stored = self._stored
        world.sinks += sinks.values()
        self._sink = cast(FakeSink, _Opened([*sinks.values()]))
        return world.sink_type(sinks)

    def refusals(self) -> DeadLettering:
        def unowed(message: Message, ticket: int, publish: Callable[[Message, int], bool]) -> bool:
            taken = publish(message, ticket)
            if taken and self._sink is not None:
                self._sink.owed = None
            return taken

        class Unowed(_DeadLettering):
            def wrap(self, *arguments: Any) -> Any:
                routing, sink = super().wrap(*arguments)
                publish = sink.publish
                sink.publish = lambda message, ticket: unowed(message, ticket, publish)  # type: ignore[method-assign]
                return routing, sink

        writer = cast(DeadLetterTableWriter, self.world.letters)
        return Unowed(self.world.policy, lambda _: writer, self.world.seen, self.world.rules.unrouted)


class SeveralWorld(World):
    """An event is safe when every sink that it is for has it."""

    rules = Rules("{aggregate_type}", routes=tuple(rule for written in _ROUTES for rule in written.by_sink))
    sink_type = SeveralSinks

    def __init__(self, wal: Wal, clock: Clock, seed: int = 0, *, room: int = 8, batch: int = 5) -> None:
        super().__init__(wal, clock, seed, room=room, batch=batch)
        self.brokers = {"first": self.broker, "second": FakeBroker(self.random, room=room)}

    def process(self) -> Process:
        return _SeveralProcess(self)

    def arrived(self, value: bytes) -> int:
        (event,) = (each for each in self.wal.events if each.payload == value)
        return min(self.brokers[name].durable[value] for name in _KEYS[event.key])

    def due(self, name: str) -> list[Event]:
        return [event for event in self.wal.events if name in _KEYS[event.key]]

    def verify(self) -> None:
        for name in _SINKS:
            broker = self.brokers[name]
            published = {message.value for message in broker.messages}
            kept = {event.payload for event in self.due(name) if event.id in self.letters.ids}
            assert published | kept == {event.payload for event in self.due(name)}, f"not what {name} is to have"
        assert self.slot.confirmed == self.wal.end
        self.verify_order()

    def verify_order(self) -> None:
        for name in _SINKS:
            broker = self.brokers[name]
            for key in "abcd":
                committed = [each.payload for each in self.due(name) if each.key == key]
                values = dict.fromkeys(each.value for each in broker.messages if each.key == key.encode())
                assert [*values] == [each for each in committed if each in values], f"{key} at {name}: not in order"

    def repetitions_at(self, name: str) -> int:
        broker = self.brokers[name]
        return len(broker.messages) - len(broker.durable)

    def repetitions(self) -> int:
        return sum(map(self.repetitions_at, self.brokers))


def broken(clock: Clock, kind: str, seed: int, stride: int = 2, world_type: type[SeveralWorld] = SeveralWorld) -> None:
    broken_at_each_step(lambda: world_type(small_wal(), clock, seed, room=4), kind, first=1 + seed, stride=stride)


@one_step_in(3)
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kind", KINDS)
def test_a_crash_at_any_step_loses_nothing_at_any_sink(clock: Clock, kind: str, seed: int, stride: int) -> None:
    """Also the crash of one sink: each of its calls is a step."""
    broken(clock, kind, seed, stride)


@pytest.mark.parametrize("seed", range(60))
def test_random_histories_with_crashes_and_sinks_of_different_speed(clock: Clock, seed: int) -> None:
    random = Random(seed)
    world = SeveralWorld(random_wal(random), clock, seed, room=random.randint(1, 20), batch=random.randint(1, 15))
    for broker in world.brokers.values():
        broker.pace, broker.room = random.choice([0.05, 0.5, 1.0]), random.randint(1, 20)
    for step in random.sample(range(1, 600), k=random.randint(0, 8)):
        world.fuse.crashes[step] = getattr(world, random.choice(KINDS))
    world.live()
    world.verify()


def stalled(clock: Clock, world_type: type[SeveralWorld] = SeveralWorld) -> SeveralWorld:
    """The second sink stands still, and the process is killed meanwhile."""
    wal = Wal()
    wal.commit("a1 a2")
    before = wal.commit("a3").end_lsn
    wal.commit("c1")
    wal.commit("a4 a5 a6")
    world = world_type(wal, clock)
    world.brokers["second"].held = _Everything()
    world.killed_after(60)
    assert world.slot.confirmed == before, "confirmed is what both have"
    assert [message.value for message in world.brokers["first"].messages] == [e.payload for e in world.due("first")]
    return world


class _Everything(set[str]):
    def __contains__(self, topic: object) -> bool:
        return True


def test_a_sink_that_stands_still_holds_the_position_and_not_the_others(clock: Clock) -> None:
    world = stalled(clock)
    world.brokers["second"].held = set()
    world.live()
    world.verify()
    assert world.repetitions_at("second") == 0
    assert world.repetitions_at("first") == 3, "what the other sink had behind the stalled message comes again"


def test_a_sink_without_room_makes_the_others_wait(clock: Clock) -> None:
    wal = Wal()
    for number in range(1, 5):
        wal.commit(f"c{number}")
    wal.commit("a1")
    world = SeveralWorld(wal, clock, room=2)
    world.brokers["second"].held = _Everything()
    world.killed_after(60)
    assert world.brokers["first"].messages == [], "the stream has one order"
    assert world.slot.confirmed < wal.transactions[0].end_lsn
    world.brokers["second"].held = set()
    world.live()
    world.verify()


@pytest.mark.parametrize("survives", [True, False])
@pytest.mark.parametrize("seed", range(15))
def test_a_refusal_of_one_sink_becomes_a_dead_letter_and_the_other_has_all_of_it(
    clock: Clock, seed: int, survives: bool
) -> None:
    random = Random(seed)
    world = SeveralWorld(random_wal(random), clock, seed, room=random.randint(2, 20), batch=random.randint(1, 15))
    world.brokers["letters"] = FakeBroker(world.random)
    world.policy = Policy(default="dead_letter", topic="letters:dead letters")
    second = world.brokers["second"]
    second.survives = survives
    second.refused = {event.payload for event in world.due("second") if random.random() < 0.2}
    world.live()
    world.verify()
    assert {event.payload for event in world.due("second") if event.id in world.letters.ids} == second.refused
    assert {message.value for message in world.broker.messages} == {event.payload for event in world.due("first")}
    assert {message.value for message in world.brokers["letters"].messages} == second.refused
    assert world.repetitions_at("first") == 0 or not survives, "only a sink that ends makes others repeat"


class _Eager(SeveralSinks):
    """Takes a message of the second sink for durable as soon as that has it."""

    def publish(self, message: Message, ticket: int) -> bool:
        taken = super().publish(message, ticket)
        if taken and message.topic.startswith("second:"):
            self._owed["second"] -= 1
            self._early.append(Receipt(ticket, 1))
        return taken

    def __init__(self, sinks: Any) -> None:
        super().__init__(sinks)
        self._early: list[Receipt] = []

    def receipts(self, timeout: float) -> list[Receipt | Refusal]:
        heard = list(super()._heard("first", timeout))
        list(self._sinks["second"].receipts(0))
        early, self._early = self._early, []
        return [*heard, *early]


def test_a_relay_that_takes_one_sinks_word_for_all_is_caught(clock: Clock) -> None:
    class Broken(SeveralWorld):
        sink_type = _Eager

    with pytest.raises(AssertionError, match="is confirmed, but the broker does not have"):
        stalled(clock, Broken)


class _Forgets(SeveralSinks):
    """When a sink has lost its connection, takes what that had for durable, and goes on with a new one."""

    def __init__(self, sinks: Any) -> None:
        super().__init__(sinks)
        self._open = {name: Counter[int]() for name in sinks}

    def publish(self, message: Message, ticket: int) -> bool:
        taken = super().publish(message, ticket)
        self._open[message.topic.partition(":")[0]][ticket] += taken
        return taken

    def _heard(self, name: str, timeout: float) -> list[Receipt | Refusal]:
        try:
            heard = cast(list[Receipt], [*self._sinks[name].receipts(timeout)])
        except Retryable:
            cast(FakeSink, self._sinks[name]).vanish()
            heard = [Receipt(ticket, count) for ticket, count in self._open[name].items() if count]
        for each in heard:
            self._open[name][each.ticket] -= each.messages
            self._owed[name] -= each.messages
        return [*heard]


def test_a_relay_that_forgets_what_a_sink_had_when_it_connects_again_is_caught(clock: Clock) -> None:
    class Broken(SeveralWorld):
        sink_type = _Forgets

    with pytest.raises(AssertionError, match="is confirmed, but the broker does not have"):
        broken(clock, "connection_breaks", 0, world_type=Broken)
