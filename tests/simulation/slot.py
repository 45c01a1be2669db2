"""A replication slot that repeats what was not confirmed, forgets in a crash, and believes whatever it is told."""

from collections.abc import Callable, Iterator
from itertools import islice
from random import Random
from typing import Any, Self, cast

from tests import pgoutput_encoder as server
from tests.simulation.clock import Clock
from tests.simulation.fuse import Fuse, boundary
from tests.simulation.wal import PREFIX, Elsewhere, Event, Loose, Renamed, Transaction, Wal
from walrelay.errors import Disconnected
from walrelay.lsn import LSN, ZERO
from walrelay.model import RelayPosition, System
from walrelay.postgres.catalog import Catalog, Slot
from walrelay.postgres.connect import Backend
from walrelay.postgres.publications import PublishedTable
from walrelay.source.positions import OwnPositionKeeper
from walrelay.source.slot_source import SlotReading, SlotSource
from walrelay.source.start import OwnPosition, Start
from walrelay.source.stream import Stream
from walrelay.wire.commands import pgoutput_options
from walrelay.wire.frames import keepalive, xlogdata

SYSTEM = System("7301", 1)

_READING = SlotReading("slot", "walrelay", "pgoutput", pgoutput_options("walrelay", binary=False), "public.outbox")
_OUTBOX, _OTHER = 16400, 16401
_TEXT, _JSONB = 25, 3802
_COLUMNS = ("id", "aggregate_type", "aggregate_id")


class FakeSlot:
    """The server's side, which outlives connections and processes.

    `witness` is called with every position that a client confirms. `batch` is the most frames there are at once.
    """

    def __init__(self, wal: Wal, witness: Callable[[LSN], None], random: Random, *, batch: int = 5) -> None:
        self.wal, self.witness, self.random, self.batch = wal, witness, random, batch
        self.confirmed = self.checkpointed = self.copied = wal.start
        self.chatty = 0.3  # how often a keepalive comes before a frame
        self.due = 0.7  # how often a status update is due when there is progress to tell
        self.patience = 5.0  # wal_sender_timeout, in seconds
        self.starts: list[LSN] = []  # of every connection
        self.statuses: list[LSN] = []  # every position that was confirmed
        self.leader: FusedStream | None = None

    def leads(self, stream: "FusedStream") -> bool:
        """Whether that connection has the lock, or gets it now."""
        self.leader = self.leader or stream
        return self.leader is stream

    def confirm(self, lsn: LSN) -> None:
        """A status update arrives. Only a checkpoint makes it last (guarantees A10)."""
        self.witness(lsn)
        self.statuses.append(lsn)
        self.confirmed = max(self.confirmed, lsn)
        if self.random.random() < 0.2:
            self.checkpointed = self.confirmed
        if self.random.random() < 0.5:
            self.copied = self.confirmed

    def fail_over(self) -> None:
        """A standby takes over, which has all of the WAL that was sent, and the slot where it was copied last."""
        self.confirmed = self.checkpointed = self.copied

    def lose_wal(self, end: LSN) -> None:
        """The server comes back without what was behind `end`."""
        self.wal.lose(end)
        self.confirmed = self.checkpointed = self.copied = min(self.confirmed, end)

    def crash(self) -> None:
        """The server goes down hard and comes back."""
        self.confirmed = self.checkpointed


class FusedStream:
    """One connection, in place of `walrelay.source.stream.Stream`; each call while it streams is a step, which ends
    where the source has taken note of it.

    `asked` is called when somebody asks whether it is still there.
    """

    def __init__(self, slot: FakeSlot, fuse: Fuse, clock: Clock, asked: Callable[[], object]) -> None:
        self.fuse, self.start, self.told = fuse, ZERO, ZERO
        self.paused: Callable[[], bool] = lambda: False  # whether reading has to wait for room in the sink
        self.pid, self.backend = 1, Backend(1, 1, "server")
        self._slot, self._clock, self._asked = slot, clock, asked
        self._gone = False
        self.ended: float | None = None  # when

    def refuse_standby(self) -> None:
        pass

    def identify(self) -> System:
        return SYSTEM

    def branches(self, timeline: int) -> dict[int, LSN]:
        return {}

    def command(self, text: str) -> None:
        self._asked()

    def pause(self, stop: Callable[[], bool], confirmed: LSN | None = None) -> None:
        if confirmed is not None:
            self.leave(confirmed)

    def rest(self) -> None:
        pass

    heartbeat = 1.0

    def start_stream(self, start: LSN, options: object, *, confirmed: LSN | None = None) -> None:
        self.start = self._received = start
        self.told = start if confirmed is None else confirmed
        self._frames = _stream(self._slot, max(start, self._slot.confirmed))
        self._answered = self._clock()
        self._slot.starts.append(start)
        self._slot.confirm(self.told)  # the first status update says what is durable

    def read(self, timeout: float) -> list[bytes]:
        self._breaks()
        return self._read(timeout)

    @boundary
    def _read(self, timeout: float) -> list[bytes]:
        """Some frames, perhaps none: the network cuts where it likes, in the middle of a transaction too."""
        assert not self.paused(), "the relay reads on with a message in its hand: its memory has no bound"
        random = self._slot.random
        frames = list(islice(self._frames, random.randint(0, self._slot.batch)))
        if not frames:
            self._clock.wait(timeout)
            if random.random() < 0.3:
                last = keepalive(self._slot.wal.end, reply_requested=random.random() < 0.1)
                frames.append(next(self._frames, last))
        for frame in frames:  # in both kinds of frame: k at 1, w at 9
            self._received = max(self._received, LSN(int.from_bytes(frame[1:9] if frame[:1] == b"k" else frame[9:17])))
        return frames

    def confirm(self, lsn: LSN) -> bool:
        self._breaks()
        self.fuse.burn(self)
        assert self.told <= lsn <= self._received, f"{lsn} is not between {self.told} told and {self._received}"
        silent = self._clock() - self._answered
        assert silent < self._slot.patience, f"wal_sender_timeout: the relay did not call for {silent:.1f} s"
        self._answered = self._clock()
        if lsn == self.told or self._slot.random.random() > self._slot.due:
            return False
        self._tell(lsn)
        return True

    def leave(self, lsn: LSN) -> None:
        self._breaks()
        self.fuse.burn(self)
        assert self.told <= lsn <= self._received
        self._tell(lsn)

    def close(self) -> None:
        self.ended = self._clock() if self.ended is None else self.ended
        self._slot.leader = None if self._slot.leader is self else self._slot.leader

    def given_up(self) -> None:
        """The server has ended it; the relay finds out when it asks."""
        self._gone = True
        self.close()

    def _breaks(self) -> None:
        if self._gone:
            raise Disconnected("the server gave the connection up")

    def _tell(self, lsn: LSN) -> None:
        self._slot.confirm(lsn)
        self.told = lsn


class SlotCatalog:
    """In place of `walrelay.postgres.catalog.Catalog`: the slot is all there is, and nobody has a transaction open."""

    database, usable = "db", True

    def __init__(self, slot: FakeSlot) -> None:
        self._slot = slot

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def slot(self, name: str) -> Slot:
        return Slot(name, "pgoutput", "db", None, None, self._slot.confirmed, "reserved", None, None, False, False)

    def current_lsn(self) -> LSN:
        return self._slot.wal.end

    def horizon(self) -> tuple[int, LSN]:
        return 1, self._slot.wal.end

    def published(self, publication: str, table: str) -> PublishedTable:
        return PublishedTable(exists=True, oid=_OUTBOX, partitioned=False, covered=True, inserts=True, via_root=False)

    def value(self, query: str, *parameters: Any) -> None:
        pass

    def refuse_another_server(self, other: Backend) -> None:
        pass

    def refuse_synchronous(self, walsender_pid: int) -> None:
        pass


class FusedSource(SlotSource):
    """The real source, whose questions are steps as well. `proof`: nobody else leads ever, so what the process
    remembers proves that the slot was moved; `begun` is called when it streams.
    """

    def __init__(
        self,
        stream: FusedStream,
        catalog: Catalog,
        last: RelayPosition | None,
        *,
        proof: bool,
        begun: Callable[["FusedSource"], None],
    ) -> None:
        super().__init__(_READING, cast(Stream, stream), catalog, lambda _: None, last)
        self.fuse, self._proof, self._begun = stream.fuse, proof, begun
        self.vouched: LSN | None = None  # up to where the outbox is known to be published; None: everywhere

    def find_start(self, own: OwnPosition | None) -> Start:
        if self._proof and own is not None and own.place == "memory":
            own = own._replace(place="file")
        return super().find_start(own)

    def start_stream(
        self, start: LSN, keeper: OwnPositionKeeper | None = None, *, confirmed: LSN | None = None, xmin: int = 0
    ) -> None:
        super().start_stream(start, keeper, confirmed=confirmed, xmin=xmin)
        self._begun(self)

    def confirm(self, lsn: LSN) -> bool:
        told = super().confirm(lsn)
        self.fuse.burn(self)
        return told

    def leave(self, lsn: LSN, *, settled: bool = False) -> None:
        super().leave(lsn, settled=settled)
        self.fuse.burn(self)

    @boundary
    def wake_by(self, descriptor: int | None) -> None:
        pass

    def vouch(self, lsn: LSN) -> LSN:
        return super().vouch(lsn if self.vouched is None else min(lsn, self.vouched))

    def report_waiting(self, since: int | None) -> None:
        pass


def _stream(slot: FakeSlot, start: LSN) -> Iterator[bytes]:
    """What a walsender sends from `start` to the end of WAL, with keepalives anywhere."""
    if slot.random.random() < slot.chatty:
        yield keepalive(slot.wal.start)  # decoding begins at restart_lsn, behind what was confirmed
    column = "payload"
    announced: set[str] = set()
    for entry in slot.wal.entries:
        match entry:
            case Transaction() if entry.commit_lsn >= start:  # the server's rule: by where the commit STARTS
                for frame in _transaction(entry, column, announced):
                    yield frame
                    if slot.random.random() < slot.chatty:
                        yield keepalive(entry.end_lsn)  # within a transaction it means nothing yet
            case Loose() if entry.end_lsn > start:
                yield xlogdata(entry.end_lsn, entry.end_lsn, _message(entry.event, entry.end_lsn, transactional=False))
            case Renamed():
                column = entry.column
                announced.clear()
            case Transaction() | Loose() | Elsewhere():
                pass
        if slot.random.random() < slot.chatty:
            yield keepalive(entry.end_lsn)


def _transaction(transaction: Transaction, column: str, announced: set[str]) -> Iterator[bytes]:
    row_lsn = transaction.opened
    yield xlogdata(row_lsn, row_lsn, server.begin(transaction.commit_lsn))
    if transaction.foreign:
        if "other" not in announced:
            announced.add("other")
            yield xlogdata(0, 0, server.relation(_OTHER, "public", "other", [("id", _TEXT)]))
        yield xlogdata(row_lsn, row_lsn, server.insert(_OTHER, [b"not an event"]))
    for event in transaction.events:
        if event.id in transaction.as_messages:
            yield xlogdata(row_lsn, row_lsn, _message(event, row_lsn, transactional=True))
            continue
        if column not in announced:
            announced.add(column)
            columns = [*((name, _TEXT) for name in _COLUMNS), (column, _JSONB)]
            yield xlogdata(0, 0, server.relation(_OUTBOX, "public", "outbox", columns))
        values = [event.id.encode(), event.topic.encode(), event.key.encode(), event.payload]
        yield xlogdata(row_lsn, row_lsn, server.insert(_OUTBOX, values))
    end = transaction.end_lsn
    yield xlogdata(end, end, server.commit(transaction.commit_lsn, end))


def _message(event: Event, lsn: LSN, *, transactional: bool) -> bytes:
    content = b'{"id": "%b", "aggregate_type": "%b", "aggregate_id": "%b", "payload": %b}' % (
        *(text.encode() for text in (event.id, event.topic, event.key)),
        event.payload,
    )
    return server.message(PREFIX, content, lsn=lsn, transactional=transactional)
