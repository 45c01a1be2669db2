"""The real relay between a fake slot and a fake broker, and what must hold whatever breaks."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from random import Random

from tests.seen import Seen
from tests.simulation.broker import FakeBroker, FakeSink
from tests.simulation.clock import Clock
from tests.simulation.fuse import Fuse, Killed
from tests.simulation.letters import FakeLetters
from tests.simulation.process import Process
from tests.simulation.slot import FakeSlot, FusedSource, FusedStream
from tests.simulation.wal import Event as Written
from tests.simulation.wal import Wal
from walrelay.decode.contract import Columns, OutboxLayout
from walrelay.errors import Disconnected, Retryable
from walrelay.lsn import LSN
from walrelay.model import Counting, Message, System
from walrelay.publish import ExactlyOnceSink, SinkHandle
from walrelay.relay.contract import NeverPaused, Pausing
from walrelay.relay.run import Runs
from walrelay.route.rules import Rules
from walrelay.sinks import memory
from walrelay.source.contract import Positions
from walrelay.supervise import Backoff
from walrelay.wiring import Limits, Policy, Wiring

_COLUMNS = Columns(type=None, headers=None, topic=None, tenant_id=None, created_at=None)
OUTBOX = OutboxLayout(prefix="walrelay", columns=_COLUMNS, skip_non_transactional=True)

_NO_SINK = SinkHandle(
    "memory", memory.MemorySettings(keep=1), memory.plugin
)  # a process opens those of the fake broker

_PATIENCE = 20_000  # turns of the loop: who has not finished by then never will


class World:
    """A server, a broker, and one relay process after the other, or one while another stands still."""

    runs: type[Runs] = Runs
    rules = Rules("{aggregate_type}")

    def __init__(self, wal: Wal, clock: Clock, seed: int = 0, *, room: int = 8, batch: int = 5) -> None:
        self.wal, self.clock, self.random = wal, clock, Random(seed)
        self.fuse = Fuse()
        self.broker = FakeBroker(self.random, room=room)
        self.slot = FakeSlot(wal, self._witness, self.random, batch=batch)
        self.seen = Seen()
        self.limits = Limits()
        self.stop: Callable[[], bool] = self.done
        self.prepare: Callable[[FusedSource], None] = lambda source: None
        self.unreadable: Written | None = None
        self.undecoded: set[bytes] = set()
        self.outbox = OUTBOX
        self.policy = Policy()
        self.letters = FakeLetters(self.fuse)
        self.leading: Callable[[], object] = lambda: None  # raises where the lead is lost while there is no room
        self.alone = True  # no other instance leads ever
        self.connecting: Callable[[], None] = lambda: None  # before there is a connection
        self.rival: Callable[[], None] | None = None  # leads when somebody else asks for the lead
        self.pausing: Pausing = NeverPaused()
        self.sinks: list[FakeSink] = []
        self.stream: FusedStream | None = None  # the last one
        self._turns = 0

    @property
    def wiring(self) -> Wiring:
        return Wiring("", "slot", "pgoutput", "walrelay", self.outbox, self.rules, _NO_SINK, limits=self.limits)

    @property
    def counting(self) -> Counting:
        return self.wiring.counting

    def done(self) -> bool:
        """Everything is published and PostgreSQL may forget all of it."""
        return self.slot.confirmed == self.wal.end and all(self.safe(event) for event in self.wal.events)

    def safe(self, event: Written) -> bool:
        """Whether the event is at the broker, or among the dead letters."""
        kept = event.payload in self.letters.raw if event.payload in self.undecoded else event.id in self.letters.ids
        return kept or self.arrived(event.payload) > 0

    def arrived(self, value: bytes) -> int:
        """How often the broker has `value` durably."""
        return self.broker.durable[value]

    def live(self) -> None:
        """Relay processes one after the other until one of them ends in good order."""
        while True:
            try:
                return self.run_process()
            except Killed:
                self.fuse.dead = False

    def killed_after(self, turns: int) -> None:
        """One process that is killed at the end of so many turns of the loop."""
        with self._ending(turns, self.process_dies), suppress(Killed):
            self.run_process()
        self.fuse.dead = False

    def stopped_after(self, turns: int) -> None:
        """One process that is asked to stop after so many turns, and leaves in good order."""
        with self._ending(turns, lambda: None):
            self.run_process()

    def run_process(self) -> None:
        """One process, whose memory is fresh; what can be retried is retried in it."""
        process = self.process()
        runs = self.runs(self.wiring, process, self.seen, clock=self.clock, timer=self.clock.timer)
        try:
            runs.until(self._stop, self.clock.wait, Backoff())
        except Killed:
            process.vanishes()
            raise

    def process(self) -> Process:
        """What a new one opens."""
        return Process(self)

    def exactly_once_sink(self, system: System) -> ExactlyOnceSink:
        raise AssertionError("this one publishes at least once")

    def positions(self) -> Positions | None:
        """Where a relay that publishes at least once keeps its own position."""
        return None

    def verify(self) -> None:
        """What holds after every history that ended well."""
        published = Counter(message.value for message in self.broker.messages)
        assert set(published) == {event.payload for event in self.wal.events}, "published is not what was committed"
        assert self.slot.confirmed == self.wal.end
        self.verify_order()

    def verify_order(self) -> None:
        """First deliveries of each key are in commit order, without a gap."""
        for key in {event.key for event in self.wal.events}:
            committed = [event.payload for event in self.wal.events if event.key == key]
            delivered = self.first_deliveries(key)
            assert delivered == committed[: len(delivered)], f"{key}: {delivered} is not the order of the commits"

    def first_deliveries(self, key: str) -> list[bytes | None]:
        return list(dict.fromkeys(message.value for message in self.of_key(key)))

    def of_key(self, key: str) -> list[Message]:
        return [message for message in self.broker.messages if message.key == key.encode()]

    def repetitions(self) -> int:
        """How many deliveries were not the first of their event."""
        return sum(self.broker.durable.values()) - len(self.broker.durable)

    def repetitions_before(self, end: LSN) -> int:
        """How many deliveries of what was committed before `end` were not the first of their event."""
        early = [
            each for transaction in self.wal.transactions if transaction.end_lsn <= end for each in transaction.events
        ]
        return sum(max(0, self.arrived(event.payload) - 1) for event in early)

    def connection_breaks(self) -> None:
        raise Retryable("the connection broke")

    def connection_breaks_alone(self) -> None:
        """The sink is not to blame, so it goes on, and so does the relay, over the next connection."""
        if isinstance(self.fuse.at, FusedStream | FusedSource):
            raise Disconnected("the connection broke")

    def process_dies(self) -> None:
        self.fuse.dead = True
        raise Killed

    def server_crashes(self) -> None:
        self.slot.crash()
        raise Retryable("the server crashed")

    def everything_dies(self) -> None:
        self.slot.crash()
        self.process_dies()

    def everything_fails_over(self) -> None:
        """The relay's process dies with the server."""
        self.slot.fail_over()
        self.letters.fail_over()
        self.process_dies()

    @contextmanager
    def _ending(self, turns: int, end: Callable[[], None]) -> Iterator[None]:
        """Meanwhile `stop` is true after so many questions, the first time with the consequence `end`."""
        left = turns

        def stop() -> bool:
            nonlocal left
            left -= 1
            if left == -1:
                end()
            return left < 0

        self.stop = stop
        yield
        self.stop = self.done

    def _stop(self) -> bool:
        self._turns += 1
        assert self._turns < _PATIENCE, (
            f"no end: {self.slot.confirmed} of {self.wal.end}, saw {self.seen.happenings[-3:]}"
        )
        return self.stop()

    def _witness(self, lsn: LSN) -> None:
        """Called at every confirmation: the server will never again send what begins before it."""
        borders = {self.wal.start, *(entry.end_lsn for entry in self.wal.entries)}
        assert lsn in borders, f"{lsn} is in the middle of something"
        for transaction in self.wal.transactions:
            if transaction.commit_lsn < lsn:
                lost = [event.id for event in transaction.events if not self.safe(event)]
                assert not lost, f"{lsn} is confirmed, but the broker does not have {lost}"
