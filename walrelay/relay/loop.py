"""The loop: tail, decode, route, publish, confirm."""

from collections.abc import Callable, Iterable
from time import monotonic, time
from typing import NamedTuple

from walrelay.confirm import Ledger
from walrelay.decode.contract import Decoder
from walrelay.errors import (
    Fatal,
    NoRoom,
    ProtocolError,
    Refused,
    RegistryAway,
    StartAnew,
    Undecodable,
    Unroutable,
)
from walrelay.lsn import LSN, ZERO
from walrelay.model import AnyRecord, Committed, Idle, LatestCommit, Message, OutboxRecord, Undecoded
from walrelay.observe import TURNED, Noticed, Observer, Relayed, Stopped, WaitedForRegistry, WaitedForRoom
from walrelay.observe.stalls import StallWatch
from walrelay.publish import Push, Sink
from walrelay.relay.settling import Settling
from walrelay.route import ResumedRouting, Routing
from walrelay.source.contract import Source
from walrelay.wiring import Limits

_RECEIPTS_WAIT = 0.01, 0.1  # how soon receipts are fetched while no frame comes: at first, and at the latest
_IDLE_WAIT = 0.1, 1.0  # the same for what else is due without a frame: to confirm, to look after the outbox
_ROOM_WAIT = 0.05  # how long to wait for receipts at a time while the sink has no room
_REGISTRY_WAIT = 1.0  # and how long until a registry that is away is asked again


class Begun(NamedTuple):
    """A record that the sink has so many messages of, while another one waits for room."""

    commit_lsn: LSN
    ordinal: int
    messages: int


_NOTHING_BEGUN = Begun(ZERO, 0, 0)


class Relay:
    """One run: any error ends it, and what was not confirmed is read again. Only after Disconnected it may `resume`."""

    def __init__(
        self,
        source: Source,
        decoder: Decoder,
        routing: Routing,
        sink: Sink,
        observer: Observer,
        limits: Limits,
        stalls: StallWatch | None = None,
        read_up_to: Callable[[LatestCommit], object] = lambda _: None,
    ) -> None:
        """`read_up_to`: see `ExactlyOnceSink`."""
        self.source, self._sink, self._observer, self._limits = source, sink, observer, limits
        self._decode, self._routing, self._route = decoder.decode, routing, routing.route
        self.ledger, self._push = Ledger(source.start), Push(sink)
        self.settling = Settling(sink, self.ledger, observer, stalls)
        self._latest: LatestCommit | None = source.latest
        self._read_up_to = read_up_to
        self._last: AnyRecord | None = None  # whose messages the sink has
        self._ordinal = -1  # of the record that was read last
        self._begun = _NOTHING_BEGUN
        self._resumed = _NOTHING_BEGUN
        self._end: Fatal | None = None  # what stands behind all that is published
        self._wait = _RECEIPTS_WAIT[0]  # for the next frame; longer each time that nothing happened: a turn costs CPU

    def resume(self, source: Source, decoder: Decoder) -> None:
        """Goes on over a connection that streams from `ledger.latest`: what the sink took is not published again."""
        self.source, self.settling.idle = source, ZERO  # what the server said of its progress it says again
        source.latest = self._latest
        self._decode, self._route = decoder.decode, self._routing.route
        if self.ledger.in_transaction and self._begun.messages:
            self._resumed = self._begun
            self._route = ResumedRouting(self._routing, *self._begun).route
        elif self.ledger.in_transaction and self._last is not None:
            self._route = ResumedRouting(self._routing, self._last.commit_lsn, self._last.ordinal + 1).route

    def run(self, stop: Callable[[], bool], pause: Callable[[], bool] = lambda: False) -> bool:
        """Relays until `stop` or `pause` says so, or up to what cannot be published; settles, confirms and leaves. True
        if that was for a pause: then the connection is kept.
        """

        def halt() -> bool:
            return stop() or pause()

        self._stop = halt
        self.source.wake_by(self._sink.descriptor())
        try:
            try:
                self.settling.settle(self.source, 0)  # nothing may overtake what was refused before a resumption
                while self._end is None and not halt():
                    self._turn()
                self._leave(to_commit=self._end is None)
            except RegistryAway:
                if not halt():
                    raise
                self._leave(to_commit=False)
            except (ProtocolError, Refused, Undecodable, Unroutable) as end:
                self._end = end
                self._leave(to_commit=False)  # what came before must not come again: it may need the settings of then
        except StartAnew:
            self.settling.leave(self.source)
            raise
        if self._end is None and not stop():
            self.settling.pause(self.source, stop)
            return True
        confirmed = self.settling.leave(self.source, stopping=self._end is None)
        self._observer.saw(Stopped(confirmed, self.ledger.unsettled))
        if self._end:
            raise self.settling.ends_in(self._end, stopping=stop())
        return False

    def _turn(self, *, to_commit: bool = False) -> None:
        decode, route, sink, ledger, settling = self._decode, self._route, self._sink, self.ledger, self.settling
        publish, records, ordinal, unsettled = sink.publish, 0, self._ordinal, ledger.unsettled
        taken, sizes, transaction = list[Message](), list[int](), ZERO
        frames, read_at = self.source.read(self._push.wait(self._wait)), time()
        for frame in frames:
            for event in decode(frame):
                if isinstance(event, (OutboxRecord, Undecoded)):
                    records, ordinal, before = records + 1, event.ordinal, len(taken)
                    if event.commit_lsn != transaction:
                        transaction = event.commit_lsn
                        self._reads(event)
                    try:
                        routed = route(event)
                    except RegistryAway as away:
                        routed = self._route_when_it_is_back(event, away)
                    for message in routed:
                        if not publish(message, ledger.ticket):
                            self._publish_when_there_is_room(message, event, len(taken) - before)
                        ledger.enter()
                        taken.append(message)
                    if len(taken) != before:  # not one that was skipped: another resumption would begin behind it
                        self._last, self._begun = event, _NOTHING_BEGUN
                elif isinstance(event, Committed):
                    ledger.commit(event.end_lsn)
                    sink.mark(event.end_lsn)
                    sizes.append(ordinal + 1)
                elif isinstance(event, Idle):
                    settling.idle = event.lsn
                else:
                    self._observer.saw(event)
            if to_commit and not ledger.in_transaction:
                break  # the rest was not confirmed, so it comes again
        if records:
            self._ordinal = ordinal
            self._push.handed_over(len(taken))
            last = ZERO if self._last is None else self._last.commit_lsn
            self._observer.saw(Relayed(records, len(taken), taken, sizes, ledger.unsettled, last, read_at))
        else:
            self._push.drained()  # nothing of ours came: a busy database's keepalives must not hold a message back
            self._observer.saw(TURNED)
        settling.mark(self._last)
        settling.settle(self.source, 0)
        if not ledger.unsettled:
            self._push.settled()
        first, longest = _RECEIPTS_WAIT if ledger.unsettled else _IDLE_WAIT
        happened = frames or ledger.unsettled != unsettled
        self._wait = first if happened else min(2 * self._wait, longest)

    def _reads(self, first: AnyRecord) -> None:
        """The first record of a transaction: before any position can tell that it was published."""
        if self._latest is None or first.committed_at >= self._latest.committed_at:
            self._latest = self.source.latest = LatestCommit(first.commit_lsn, first.committed_at)
            self._read_up_to(self._latest)

    def _publish_when_there_is_room(self, message: Message, record: AnyRecord, taken: int) -> None:
        """PostgreSQL is the buffer. But a walsender that cannot write blocks the checkpointer (guarantees A8).

        `taken`: messages of the record that the sink took since it was read.
        """
        paused, (commit_lsn, ordinal, *_) = monotonic(), record
        told = paused
        earlier = self._resumed.messages if self._resumed[:2] == (commit_lsn, ordinal) else 0
        self._begun = Begun(commit_lsn, ordinal, earlier + taken)
        while True:
            if not self._begun.messages:  # what is marked lies between two records
                self._sink.mark(self.ledger.latest, commit_lsn, ordinal)
            if self._sink.publish(message, self.ledger.ticket):
                return
            if self._stop():
                self.settling.begin_to_leave(self._limits.shutdown)
            if monotonic() > min(paused + self._limits.pause, self.settling.deadline):
                raise self.settling.no_room(monotonic() - paused)
            self.settling.settle(self.source, _ROOM_WAIT)
            before, told = told, monotonic()
            self._observer.saw(WaitedForRoom(told - before))

    def _route_when_it_is_back(self, record: AnyRecord, away: RegistryAway) -> Iterable[Message]:
        """A registry that is away is back-pressure, as a sink without room is. Asking it may take seconds, so what was
        published before is settled in between.
        """
        told = paused = monotonic()
        self._observer.saw(Noticed(f"{away}; reading pauses until it answers (hint: {away.hint})"))
        while True:
            again = monotonic() + _REGISTRY_WAIT
            self.settling.note_waiting(record)
            while monotonic() < again:
                if self._stop():
                    raise away
                self._sink.flush(_ROOM_WAIT)  # a client may take 0 for "send nothing"
                self.settling.settle(self.source, _ROOM_WAIT)
                before, told = told, monotonic()
                self._observer.saw(WaitedForRegistry(told - before, str(away), away.hint))
            try:
                return self._route(record)
            except RegistryAway as still:
                away = still
            if monotonic() > paused + self._limits.pause:
                raise NoRoom(f"{away}; closing the replication stream so that checkpoints are not delayed") from away

    def _leave(self, *, to_commit: bool = True) -> None:
        ledger, settling = self.ledger, self.settling
        settling.begin_to_leave(self._limits.shutdown)
        if not to_commit and not self._begun.messages:
            settling.mark(self._last, over=True)
        while to_commit and ledger.in_transaction and monotonic() < settling.deadline:
            self._turn(to_commit=True)  # half a transaction cannot be confirmed and would be published twice
        while settling.owed and settling.goes_on and monotonic() < settling.deadline:
            self._sink.flush(_ROOM_WAIT)
            settling.settle(self.source, _ROOM_WAIT)
            self._observer.saw(TURNED)
