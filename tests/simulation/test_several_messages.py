"""Records that become several messages each: whatever breaks, and in the middle of a record too, each of them arrives,
in order, and in exactly-once mode once.
"""

from random import Random
from typing import Any

import pytest

from tests.simulation.breaking import broken_at_each_step
from tests.simulation.clock import Clock
from tests.simulation.test_crashes import KINDS, random_wal, small_wal
from tests.simulation.test_exactly_once import ALL_KINDS, ExactlyOnceWorld, MakeWorld, cut, large_wal, make_world
from tests.simulation.wal import Event
from tests.simulation.world import World
from walrelay.model import Message
from walrelay.relay.loop import Relay
from walrelay.route import ResumedRouting
from walrelay.route.rules import Condition, Rule, Rules

__all__ = ["cut", "make_world"]

_EVEN = (Condition("aggregate_id", "one_of", ("b", "d")),)
RULES = Rules(
    "{aggregate_type}",
    routes=(
        Rule("copy", topic="copy.{aggregate_type}", goes_on=True),
        Rule("third", _EVEN, topic="third.{aggregate_type}", goes_on=True),
        Rule("itself"),
    ),
)


def topics_of(event: Event) -> list[str]:
    return ["copy", "third", "itself"] if event.key in "bd" else ["copy", "itself"]


def kind_of(message: Message) -> str:
    head = message.topic.partition(".")[0]
    return head if head in ("copy", "third") else "itself"


class Fanned(World):
    """An event is safe when all of its messages are."""

    rules = RULES

    def arrived(self, value: bytes) -> int:
        kinds = [kind_of(message) for message in self.broker.messages if message.value == value]
        (event,) = (each for each in self.wal.events if each.payload == value)
        return min(kinds.count(kind) for kind in topics_of(event))

    def verify(self) -> None:
        super().verify()
        for event in self.wal.events:
            found = {kind_of(message) for message in self.broker.messages if message.value == event.payload}
            assert found == {*topics_of(event)}

    def verify_order(self) -> None:
        for kind in ("copy", "third", "itself"):
            for key in {event.key for event in self.wal.events}:
                committed = [each.payload for each in self.wal.events if each.key == key and kind in topics_of(each)]
                of_kind = (message for message in self.of_key(key) if kind_of(message) == kind)
                assert list(dict.fromkeys(message.value for message in of_kind)) == committed

    def repetitions(self) -> int:
        return len(self.broker.messages) - sum(len(topics_of(event)) for event in self.wal.events)


class FannedExactlyOnce(ExactlyOnceWorld):
    rules = RULES

    def arrived(self, value: bytes) -> int:
        return Fanned.arrived(self, value)  # type: ignore[arg-type]

    def verify(self) -> None:
        World.verify(self)
        self.witness_commit()

    def verify_order(self) -> None:
        Fanned.verify_order(self)  # type: ignore[arg-type]

    def witness_commit(self) -> None:
        position = self.groups.position
        assert position is not None
        expected = [
            (kind, event.payload)
            for transaction in self.wal.transactions
            for ordinal, event in enumerate(transaction.events)
            for kind in topics_of(event)
            if transaction.end_lsn <= position.lsn
            or (transaction.commit_lsn == position.commit_lsn and ordinal < position.ordinal)
        ]
        committed = [(kind_of(message), message.value) for message in self.groups.committed]
        assert committed == expected, f"not what {position} says"


def broken(clock: Clock, kind: str, seed: int) -> None:
    broken_at_each_step(lambda: Fanned(small_wal(), clock, seed, room=4), kind, first=1 + seed)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kind", KINDS)
def test_a_crash_at_any_step_loses_no_message_of_a_record(clock: Clock, kind: str, seed: int) -> None:
    broken(clock, kind, seed)


@pytest.mark.parametrize("seed", range(60))
def test_connections_that_break_again_and_again_repeat_no_message(clock: Clock, seed: int) -> None:
    """Also in the middle of a record, and again while the rest of it is published."""
    random = Random(seed)
    world = Fanned(random_wal(random), clock, seed, room=random.randint(1, 4), batch=random.randint(1, 5))
    for step in random.sample(range(1, 400), 3):  # more, and the relay may let go of the sink
        world.fuse.crashes[step] = world.connection_breaks_alone
    world.live()
    world.verify()
    assert world.repetitions() == 0


def exactly_once(make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.setattr("tests.simulation.test_exactly_once.ExactlyOnceWorld", FannedExactlyOnce)
    random = Random(seed)
    wal = large_wal(random) if seed % 2 else random_wal(random)
    world = make_world(wal, seed, room=random.randint(2, 8))
    world.settings = world.settings.model_copy(update={"transaction_timeout": 0.03, "group_interval": 0.01})
    for step in random.sample(range(1, 600), 12):
        world.fuse.crashes[step] = getattr(world, random.choice(ALL_KINDS))
    world.live()
    world.verify()


@pytest.mark.usefixtures("cut")
@pytest.mark.parametrize("seed", range(80))
def test_exactly_once_no_group_ends_within_a_record(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    exactly_once(make_world, monkeypatch, seed)


class _BehindTheRecord(Relay):
    """Resumes behind a record of which the sink has only a part."""

    def resume(self, *args: Any) -> None:
        begun = self._begun
        super().resume(*args)
        if begun.messages:
            self._route = ResumedRouting(self._routing, begun.commit_lsn, begun.ordinal + 1).route


class _AtTheRecord(Relay):
    """Publishes all messages again of a record that the sink has a part of."""

    def resume(self, *args: Any) -> None:
        begun = self._begun
        super().resume(*args)
        if begun.messages:
            self._route = ResumedRouting(self._routing, begun.commit_lsn, begun.ordinal).route


@pytest.mark.parametrize("mutant", [_BehindTheRecord, _AtTheRecord])
def test_a_relay_that_resumes_at_the_wrong_message_is_caught(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, mutant: type[Relay]
) -> None:
    monkeypatch.setattr("walrelay.relay.run.Relay", mutant)

    def everywhere() -> None:
        for seed in range(2):
            broken(clock, "connection_breaks_alone", seed)

    with pytest.raises(AssertionError):
        everywhere()


class _MarksWithin(Relay):
    """Tells the sink where it is in the middle of a record too."""

    def _publish_when_there_is_room(self, message: Any, record: Any, taken: int) -> None:
        self._sink.mark(self.ledger.latest, record.commit_lsn, record.ordinal)
        super()._publish_when_there_is_room(message, record, taken)


@pytest.mark.usefixtures("cut")
def test_a_relay_that_marks_within_a_record_is_caught(make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("walrelay.relay.run.Relay", _MarksWithin)

    def often() -> None:
        for seed in range(40):
            exactly_once(make_world, monkeypatch, seed)

    with pytest.raises(AssertionError, match=r"not what .* says"):
        often()
