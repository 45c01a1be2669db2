"""A replication slot that repeats what was not confirmed, forgets in a crash, and believes whatever it is told."""

from collections.abc import Callable, Iterator
from itertools import islice
from random import Random

from tests import pgoutput_encoder as server
from tests.simulation.clock import Clock
from tests.simulation.fuse import Fuse, boundary
from tests.simulation.wal import PREFIX, Elsewhere, Event, Loose, Renamed, Transaction, Wal
from walrelay.lsn import LSN
from walrelay.model import Position, System
from walrelay.postgres.catalog import Slot
from walrelay.source.start import Own, Server, start_of
from walrelay.wire.frames import keepalive, xlogdata

SYSTEM = System("7301", 1)

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

    def connect(self, bookmark: LSN | None, fuse: Fuse, clock: Clock, *, reached: LSN | None = None) -> "FakeSource":
        """A new stream, from where walrelay's own rule says, or from what a relay `reached` that goes on."""
        row = Slot("slot", "pgoutput", "db", None, None, self.confirmed, "reserved", None, None, False, False)
        own = Own("file", Position(SYSTEM, "slot", bookmark)) if bookmark else None  # nobody else leads: it is proof
        confirmed = max(start_of(row, own, Server(SYSTEM, self.wal.end, {})).lsn, self.confirmed)
        self.starts.append(confirmed if reached is None else reached)
        return FakeSource(self, self.starts[-1], confirmed, fuse, clock)

    def confirm(self, lsn: LSN) -> None:
        """A status update arrives. Only a checkpoint makes it last (PITFALLS A10)."""
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

    def crash(self) -> None:
        """The server goes down hard and comes back."""
        self.confirmed = self.checkpointed


class FakeSource:
    """One connection: implements `walrelay.source.contract.Source`."""

    def __init__(self, slot: FakeSlot, start: LSN, confirmed: LSN, fuse: Fuse, clock: Clock) -> None:
        self.start = self._received = start
        self.told = confirmed
        self.fuse = fuse
        self.vouched: LSN | None = None  # up to where the outbox is known to be published; None: everywhere
        self.paused: Callable[[], bool] = lambda: False  # whether reading has to wait for room in the sink
        self._slot, self._clock = slot, clock
        self._frames = _stream(slot, start)
        self._answered = clock()
        slot.confirm(confirmed)  # the first status update says what is durable, and so does Stream.begin

    @boundary
    def read(self, timeout: float) -> list[bytes]:
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

    @boundary
    def confirm(self, lsn: LSN) -> bool:
        assert self.told <= lsn <= self._received, f"{lsn} is not between {self.told} told and {self._received}"
        silent = self._clock() - self._answered
        assert silent < self._slot.patience, f"wal_sender_timeout: the relay did not call for {silent:.1f} s"
        self._answered = self._clock()
        if lsn == self.told or self._slot.random.random() > self._slot.due:
            return False
        self._tell(lsn)
        return True

    def waits(self, since: int | None) -> None:
        pass

    @boundary
    def vouch(self, lsn: LSN) -> LSN:
        return lsn if self.vouched is None else min(lsn, self.vouched)

    @boundary
    def leave(self, lsn: LSN) -> None:
        assert self.told <= lsn <= self._received
        self._tell(lsn)

    def _tell(self, lsn: LSN) -> None:
        self._slot.confirm(lsn)
        self.told = lsn


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
