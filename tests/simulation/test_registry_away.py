"""A schema registry that is away is back-pressure: nothing overtakes, nothing is repeated, and the stream is let go."""

from collections.abc import Iterable, Iterator

import pytest

from tests.simulation.clock import Clock
from tests.simulation.wal import Wal
from tests.simulation.world import World
from walrelay.errors import RegistryAway
from walrelay.model import Finding
from walrelay.observe import Noticed, Stopped
from walrelay.route.rules import Rule, Rules
from walrelay.route.rules.schemas import PayloadSchema, SchemaRequest


class FakeEncoder:
    """Cannot ask the registry for `missing` payloads before it is `back`. A question takes two seconds."""

    def __init__(self, clock: Clock, missing: bytes, back: float) -> None:
        self._clock, self._missing, self._back = clock, missing, clock() + back
        self.waiting = list[float]()

    def encoded(self, wanted: SchemaRequest, payload: bytes) -> bytes:
        if payload == self._missing and self._clock() < self._back:
            self.waiting.append(self._clock())
            self._clock.wait(2)
            raise RegistryAway("the registry is away", hint="start it")
        return payload

    def examine(self, schemas: Iterable[tuple[PayloadSchema, str]]) -> Iterator[Finding]:
        yield from ()


def world_of(clock: Clock, back: float, seed: int = 0) -> tuple[World, FakeEncoder]:
    wal = Wal()
    for number in range(0, 30, 3):
        wal.commit(f"a{number} b{number + 1} a{number + 2}")
    world = World(wal, clock, seed)
    encoder = FakeEncoder(clock, wal.events[13].payload, back)
    rule = Rule("every record", schema=PayloadSchema("avro"))
    world.rules = Rules("{aggregate_type}", routes=(rule,), encoder=encoder)
    return world, encoder


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("back", [0.5, 10, 200])
def test_a_registry_that_is_away_costs_neither_order_nor_a_repetition(clock: Clock, back: float, seed: int) -> None:
    world, encoder = world_of(clock, back, seed)
    world.live()
    world.verify()
    assert world.repetitions() == 0
    assert world.seen.retries == []
    assert encoder.waiting
    assert all(later - earlier < 60 for earlier, later in zip(encoder.waiting, encoder.waiting[1:], strict=False))
    told = [each for each in world.seen.happenings if isinstance(each, Noticed)]
    assert [each.text.partition(";")[0] for each in told][:1] == ["the registry is away"]
    assert ("closing the replication stream" in "".join(each.text for each in told)) == (back > 30)


def test_what_came_before_is_published_and_confirmed_while_the_registry_is_away(clock: Clock) -> None:
    world, encoder = world_of(clock, 10_000)
    world.stop = lambda: len(encoder.waiting) >= 5
    world.live()
    assert [world.arrived(event.payload) for event in world.wal.events] == [1] * 13 + [0] * 17
    assert world.slot.confirmed == world.wal.transactions[3].end_lsn


def test_a_stop_is_answered_while_the_registry_is_away(clock: Clock) -> None:
    world, encoder = world_of(clock, 10_000)
    began = clock()
    world.stop = lambda: len(encoder.waiting) >= 3
    world.live()
    assert clock() - began < 60
    assert isinstance(world.seen.happenings[-1], Stopped)
    world.rules, world.stop = World.rules, world.done
    world.live()
    world.verify()
