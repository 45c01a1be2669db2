"""Whatever breaks, and wherever: every event is committed exactly once, in order, and the position never lies."""

from collections import Counter
from collections.abc import Callable
from random import Random

import pytest

from tests.simulation.breaking import broken_at_each_step, steps
from tests.simulation.clock import Clock
from tests.simulation.groups import FakePositions, FakeProducer, TransactionalBroker
from tests.simulation.slot import FusedSource
from tests.simulation.test_crashes import KINDS, one_step_in, random_wal, small_wal
from tests.simulation.wal import Event, Wal, numbered
from tests.simulation.world import World
from walrelay.errors import Fatal, Refused, Undecodable
from walrelay.model import System
from walrelay.publish import ExactlyOnceSink
from walrelay.sinks.kafka import transactional_producer, transactions
from walrelay.sinks.kafka.batching import BatchingHistory
from walrelay.sinks.kafka.settings import KafkaSettings
from walrelay.sinks.kafka.transactions import KafkaTransactions
from walrelay.wiring import PositionPlace, Wiring

ALL_KINDS = [*KINDS, "another_one_leads"]


class ExactlyOnceWorld(World):
    """With the real sink that publishes exactly once, which keeps the position."""

    sink_type: type[KafkaTransactions] = KafkaTransactions

    def __init__(self, wal: Wal, clock: Clock, seed: int = 0, *, room: int = 8, batch: int = 5) -> None:
        super().__init__(wal, clock, seed, room=room, batch=batch)
        self.broker = self.groups = TransactionalBroker(self.random, self.witness_commit, room=room)
        self.settings = KafkaSettings.model_validate({"bootstrap_servers": "nowhere"})
        self.slot.patience = 60.0
        self._history = BatchingHistory()
        self.uncounted: frozenset[str] = frozenset()  # events that are none under the settings of now

    def safe(self, event: Event) -> bool:
        return event.id in self.uncounted or super().safe(event)

    @property
    def wiring(self) -> Wiring:
        return super().wiring._replace(exactly_once=True, position=PositionPlace("topic"))

    def exactly_once_sink(self, system: System) -> ExactlyOnceSink:
        return self.sink_type(self.settings, system, "slot", self._history, self.counting)

    def verify(self) -> None:
        super().verify()
        assert set(Counter(message.value for message in self.groups.committed).values()) <= {1}
        self.witness_commit()

    def witness_commit(self) -> None:
        """What is there is what the position says, event by event, in the order of the commits."""
        position = self.groups.position
        assert position is not None, "it is done, but the broker does not have a position"
        expected = [
            event.payload
            for transaction in self.wal.transactions
            for ordinal, event in enumerate(transaction.events)
            if transaction.end_lsn <= position.lsn
            or (transaction.commit_lsn == position.commit_lsn and ordinal < position.ordinal)
        ]
        assert [message.value for message in self.groups.committed] == expected, f"not what {position} says"

    def another_one_leads(self) -> None:
        """This one is frozen, the server gives it up, and it wakes up when another one has led for a while."""
        if self.stream is not None:
            self.stream.given_up()
        try:
            self.stopped_after(self.random.randint(0, 20))
        finally:
            self.stop = self.done


MakeWorld = Callable[..., ExactlyOnceWorld]


@pytest.fixture
def make_world(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> MakeWorld:
    def make(wal: Wal, seed: int = 0, **sizes: int) -> ExactlyOnceWorld:
        world = ExactlyOnceWorld(wal, clock, seed, **sizes)
        monkeypatch.setattr(
            transactional_producer,
            "producer",
            lambda settings, identity, **_: FakeProducer(world.groups, world.fuse, world.clock, identity),
        )
        monkeypatch.setattr(transactions, "PositionTopic", lambda *_: FakePositions(world.groups))
        return world

    return make


def large_wal(random: Random) -> Wal:
    """Large transactions, between others that do not concern the outbox."""
    wal = Wal()
    for key in "abcd":
        for _ in range(random.randint(0, 3)):
            if random.random() < 0.5:
                wal.commit()
            else:
                wal.elsewhere()
        wal.commit(numbered(key, random.randint(1, 60)), opened=wal.start)
    return wal


@pytest.fixture
def cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is looked after a few messages already whether a transaction has to be cut."""
    monkeypatch.setattr(transactions, "_LOOK", 1)


@one_step_in(3)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ALL_KINDS)
def test_a_crash_at_any_step_commits_each_event_once(make_world: MakeWorld, kind: str, seed: int, stride: int) -> None:
    broken_at_each_step(lambda: make_world(small_wal(), seed), kind, first=1 + seed % stride, stride=stride)


@pytest.mark.parametrize("seed", range(150))
def test_random_histories_with_many_crashes_commit_each_event_once(make_world: MakeWorld, seed: int) -> None:
    break_at_random(make_world, seed)


@pytest.mark.usefixtures("cut")
@pytest.mark.parametrize("seed", range(150))
def test_transactions_that_are_cut_are_gone_on_with_where_they_were(make_world: MakeWorld, seed: int) -> None:
    break_at_random(make_world, seed, large=True, transaction_timeout=0.03, group_interval=0.01)


@pytest.mark.usefixtures("cut")
def test_settings_that_count_other_records_pass_over_none_of_a_transaction_that_is_cut(make_world: MakeWorld) -> None:
    """One process counts rows and logical messages, the next one rows only: the same ordinals are other records."""
    refusals = 0
    for seed in range(60):
        wal, events = Wal(), numbered("a", 40).split()
        messages = events[:: 2 + seed % 3]
        wal.commit(" ".join(events), as_messages=" ".join(messages))
        wal.commit(numbered("b", 3))
        world = make_world(wal, seed, room=4, batch=3)
        world.settings = world.settings.model_copy(update={"transaction_timeout": 0.03, "group_interval": 0.01})
        world.killed_after(Random(seed).randint(0, 40))
        counted, world.outbox = world.outbox, world.outbox._replace(prefix=None)
        world.uncounted = frozenset(messages)
        world.groups.witness = lambda: None  # the position counts in another way from here on
        try:
            world.live()
        except Fatal:
            refusals += 1
            world.outbox, world.uncounted = counted, frozenset()
            world.live()
            world.verify()
        times = Counter(message.value for message in world.groups.committed)
        rows = [event.payload for event in wal.events if event.id not in messages]
        assert [times[row] for row in rows] == [1] * len(rows)
        assert max(times.values()) == 1
    assert 0 < refusals < 60


def break_at_random(make_world: MakeWorld, seed: int, *, large: bool = False, **settings: float) -> None:
    random = Random(seed)
    wal = large_wal(random) if large else random_wal(random)
    world = make_world(wal, seed, room=random.randint(1, 20), batch=random.randint(1, 15))
    world.settings = world.settings.model_copy(update=settings)
    world.groups.deaf = random.choice([0.0, 0.3, 0.6])
    world.groups.takes_back = random.choice([0.0, 0.1])
    world.slot.chatty = random.choice([0.0, 0.3, 0.9])
    for step in random.sample(range(1, 600), k=random.randint(0, 12)):
        world.fuse.crashes[step] = getattr(world, random.choice(ALL_KINDS))
    world.live()
    world.verify()


def test_a_group_waits_for_a_commit_that_fails_or_whose_answer_is_lost(make_world: MakeWorld) -> None:
    commits_that_are_not_answered(make_world)


def commits_that_are_not_answered(make_world: MakeWorld) -> None:
    used = set[int]()
    for seed in range(30):
        world = make_world(large_wal(Random(seed)), seed, room=20, batch=3)
        world.groups.deaf, world.groups.takes_back = 0.6, 0.2
        world.live()
        world.verify()
        used.add(len(world.groups.committing))
    assert max(used) == 3, "the producers did not take turns"


def test_a_server_that_forgets_everything_gets_no_event_published_twice(make_world: MakeWorld) -> None:
    for step in range(1, steps(lambda: make_world(small_wal())) + 1):
        world = make_world(small_wal())

        def crash(world: ExactlyOnceWorld = world) -> None:
            world.slot.checkpointed = world.wal.start
            world.everything_dies()

        world.fuse.crashes[step] = crash
        world.live()
        world.verify()


def test_a_transaction_that_comes_slowly_is_cut_before_the_broker_takes_it_back(make_world: MakeWorld) -> None:
    """As one does with few events and millions of other rows: it would be taken back again and again."""
    wal = Wal()
    wal.commit("a1 a2")
    wal.commit(numbered("b", 100))
    world = make_world(wal, batch=2)
    world.groups.deaf = 0

    def slow(source: FusedSource) -> None:
        read = source.read

        def read_slowly(timeout: float) -> list[bytes]:
            world.clock.wait(2)
            return read(timeout)

        source.read = read_slowly

    world.prepare = slow
    world.live()
    world.verify()
    assert world.seen.retries == []


@pytest.mark.parametrize("seed", range(5))
def test_a_stop_after_any_turn_and_a_restart_commit_each_event_once(make_world: MakeWorld, seed: int) -> None:
    for turns in range(60):
        world = make_world(small_wal(), seed)
        world.stopped_after(turns)
        world.live()
        world.verify()


def test_what_comes_before_an_unreadable_record_is_committed_and_the_rest_when_it_can_be_read(
    make_world: MakeWorld,
) -> None:
    for number in (0, 1, 3, 4, 5, 6, 7, 8, 9, 10):  # the third is a logical message
        world = make_world(small_wal(), number)
        world.unreadable = world.wal.events[number]
        with pytest.raises(Undecodable):
            world.live()
        assert len(world.groups.committed) == number
        world.unreadable = None
        world.live()
        world.verify()


def test_nothing_of_the_group_with_a_refused_message_is_seen_and_all_of_it_when_it_is_taken(
    make_world: MakeWorld,
) -> None:
    for number, event in enumerate(small_wal().events):
        world = make_world(small_wal(), number)
        world.groups.refused = {event.payload}
        with pytest.raises(Refused):
            world.live()
        world.groups.refused.clear()
        world.live()
        world.verify()
