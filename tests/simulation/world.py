"""The real relay between a fake slot and a fake broker, and what must hold whatever breaks."""

from collections import Counter
from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager, suppress
from random import Random

from tests.simulation.broker import FakeBroker, FakeSink
from tests.simulation.clock import Clock
from tests.simulation.fuse import Fuse, Killed, boundary
from tests.simulation.letters import FakeLetters
from tests.simulation.slot import FakeSlot, FakeSource
from tests.simulation.wal import Event as Written
from tests.simulation.wal import Wal
from walrelay.dead_letters.decisions import Aside, Memory
from walrelay.dead_letters.policy import Policy
from walrelay.dead_letters.wrapping import CarefulRouter, CarefulSink
from walrelay.decode.contract import Columns, Outbox
from walrelay.decode.pgoutput import PgoutputDecoder
from walrelay.errors import Disconnected, NoRoom, Retryable, Undecodable
from walrelay.lsn import LSN
from walrelay.model import Event, Message, OutboxRecord, Undecoded
from walrelay.observe import Observer
from walrelay.publish import Sink
from walrelay.relay.loop import Limits, Relay
from walrelay.route import Ahead, Router, Routing
from walrelay.supervise import Backoff, supervise

_COLUMNS = Columns(type=None, headers=None, topic=None, tenant_id=None, created_at=None)
OUTBOX = Outbox(prefix="walrelay", columns=_COLUMNS, skip_non_transactional=True)

_PATIENCE = 20_000  # turns of the loop: who has not finished by then never will


class FusedDecoder(PgoutputDecoder):
    """The real decoder, whose calls are steps; `unreadable` is a payload that it cannot make anything of, `undecoded`
    are those that come as logical messages that are no records.
    """

    def __init__(self, fuse: Fuse, outbox: Outbox, unreadable: bytes | None, undecoded: Set[bytes]) -> None:
        super().__init__(outbox)
        self.fuse = fuse
        self._unreadable, self._undecoded = unreadable, undecoded

    @boundary
    def decode(self, frame: bytes) -> tuple[Event, ...]:
        if self._unreadable is not None and frame.endswith(self._unreadable):
            raise Undecodable("a row that is not an outbox record")
        return tuple(map(self._spoilt, super().decode(frame)))

    def _spoilt(self, event: Event) -> Event:
        if not isinstance(event, OutboxRecord) or event.payload is None or event.payload not in self._undecoded:
            return event
        return Undecoded(*event[:3], "walrelay", event.payload, "no record", "none")


class _Careful(CarefulSink):
    """What was in the relay's hand and became a dead letter is not owed any more."""

    def __init__(self, sink: FakeSink, aside: Aside) -> None:
        super().__init__(sink, aside)
        self._fake = sink

    def publish(self, message: Message, ticket: int) -> bool:
        taken = super().publish(message, ticket)
        if taken:
            self._fake.owed = None
        return taken


class Journal(Observer):
    """What the relay said."""

    def __init__(self) -> None:
        self.said: list[tuple[str, str]] = []
        self.skips: list[LSN] = []

    def stalled(self, seconds: float, unsettled: int, why: str) -> None:
        self.said.append(("stalled", why))

    def resumed(self, seconds: float) -> None:
        self.said.append(("resumed", ""))

    def skipped(self, lsn: LSN, why: str) -> None:
        self.skips.append(lsn)

    def noticed(self, text: str) -> None:
        self.said.append(("noticed", text))

    def retrying(self, cause: str, attempt: int, pause: float, lasting: bool) -> None:
        self.said.append(("retrying", cause))

    def stopped(self, confirmed: LSN, unsettled: int) -> None:
        self.said.append(("stopped", str(unsettled)))


class World:
    """A server, a broker, and one relay process after the other."""

    def __init__(self, wal: Wal, clock: Clock, seed: int = 0, *, room: int = 8, batch: int = 5) -> None:
        self.wal, self.clock, self.random = wal, clock, Random(seed)
        self.fuse = Fuse()
        self.broker = FakeBroker(self.random, room=room)
        self.slot = FakeSlot(wal, self._witness, self.random, batch=batch)
        self.journal = Journal()
        self.limits = Limits()
        self.stop: Callable[[], bool] = self.done
        self.prepare: Callable[[FakeSource], None] = lambda source: None
        self.unreadable: Written | None = None
        self.undecoded: set[bytes] = set()
        self.outbox = OUTBOX
        self.policy = Policy()
        self.letters = FakeLetters(self.fuse)
        self._memory = Memory()
        self.ahead = Ahead()
        self.leading: Callable[[], object] = lambda: None  # raises where the lead is lost while there is no room
        self._bookmark: LSN | None = None
        self._sink: FakeSink | None = None
        self._held: Relay | None = None
        self._turns = 0

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
                if self._sink:
                    self._sink.vanish()

    def killed_after(self, turns: int) -> None:
        """One process that is killed at the end of so many turns of the loop."""
        with self._ending(turns, self.process_dies), suppress(Killed):
            self.run_process()
        if self._sink:
            self._sink.vanish()

    def stopped_after(self, turns: int) -> None:
        """One process that is asked to stop after so many turns, and leaves in good order."""
        with self._ending(turns, lambda: None):
            self.run_process()

    def run_process(self) -> None:
        """One process, whose memory is fresh; what can be retried is retried in it."""
        self._bookmark = self._held = None
        self._memory = Memory()
        self.ahead = Ahead()
        supervise(self._one_run, lambda: self._bookmark, self._stop, self.clock.wait, self.journal, Backoff())

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
        if isinstance(self.fuse.at, FakeSource):
            raise Disconnected("the connection broke")

    def process_dies(self) -> None:
        raise Killed

    def server_crashes(self) -> None:
        self.slot.crash()
        raise Retryable("the server crashed")

    def everything_dies(self) -> None:
        self.slot.crash()
        raise Killed

    def everything_fails_over(self) -> None:
        """The relay's process dies with the server."""
        self.slot.fail_over()
        self.letters.fail_over()
        raise Killed

    def _one_run(self) -> None:
        self.ahead.run(self._run)

    def _run(self) -> None:
        """One connection, as `walrelay.compose` makes it; relay and sink are kept while there is no room."""
        while True:
            try:
                return self._stream()
            except NoRoom as why:
                if self._sink is None or self._held is None or self.stop():
                    raise
                self.journal.noticed(str(why))
                self._waits_for_room(self._held, self._sink)

    def _stream(self) -> None:
        held, self._held = self._held, None
        source = self.slot.connect(self._bookmark, self.fuse, self.clock, reached=held.ledger.latest if held else None)
        decoder = FusedDecoder(self.fuse, self.outbox, self.unreadable and self.unreadable.payload, self.undecoded)
        if held is None or self._sink is None:
            self._sink = self.broker.connect(self.fuse, self.clock)
            routing = self.ahead.routing(Router("{aggregate_type}"))
            routing, sink_of_relay = self._careful(source.start, routing, self._sink)
            relay = Relay(source, decoder, routing, sink_of_relay, self.journal, self.limits)
        else:
            relay = held
            relay.resume(source, decoder)
            self._sink.owed = None  # what the relay had in its hand comes again
        self._bookmark, sink = source.told, self._sink
        source.paused = lambda: sink.owed is not None
        self.prepare(source)
        try:
            relay.run(self._stop)
        except (Disconnected, NoRoom):
            self._held = relay
            raise
        except Exception:
            sink.close()
            raise
        finally:
            self._bookmark = source.told
        sink.close()

    def _waits_for_room(self, relay: Relay, sink: FakeSink) -> None:
        try:
            relay.settling.await_room(self._stop, self.leading)
        except Exception:
            self._held = None
            sink.close()
            raise

    def _careful(self, start: LSN, router: Routing, sink: FakeSink) -> tuple[Routing, Sink]:
        if self.policy.only_stops:
            return router, sink
        self._memory.forget_before(start)
        if self.letters.kept:
            self.letters.survive()
        settled, blocked = self.letters.settled(), self.letters.blocked_keys() if self.policy.block_key else {}
        aside = Aside(self.policy, self.letters, self._memory, settled, blocked, self.journal.set_aside)
        return CarefulRouter(router.route, aside), _Careful(sink, aside)

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
            f"no end: {self.slot.confirmed} of {self.wal.end}, said {self.journal.said[-3:]}"
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
