"""From receipts to confirmation: what the sink has made durable becomes what PostgreSQL is told."""

from collections import deque
from collections.abc import Callable
from math import inf
from time import monotonic, time
from typing import NamedTuple

from walrelay.confirm import Ledger
from walrelay.errors import Fatal, NoRoom, StopAhead, WalrelayError
from walrelay.lsn import LSN, ZERO
from walrelay.model import AnyRecord, Receipt, Refusal
from walrelay.observe import TURNED, Acknowledged, Behind, Confirmed, Observer, Settled, Stopping, WaitedForRoom
from walrelay.observe.stalls import StallWatch
from walrelay.publish import Sink, refused
from walrelay.source.contract import Source

_LONG = 1.0  # seconds after which an event that waits is told to the server, for whoever asks for the relay's lag
_SAMPLES = 1_000
_LEADING_INTERVAL = 2.0  # seconds between two questions whether this instance still leads
_AWAIT = 0.05  # seconds
_MOMENT = 5.0  # seconds


class _Sample(NamedTuple):
    """The last transaction that a turn of the loop read of."""

    commit_lsn: LSN
    committed_at: int  # microseconds since 1970, by the server's clock
    read_at: float  # by this process's


class Settling:
    """Settles the messages of one sink and its ledger; the source may be another one after a reconnection."""

    def __init__(self, sink: Sink, ledger: Ledger, observer: Observer, stalls: StallWatch | None = None) -> None:
        """`stalls`: of the relay, for all its runs."""
        self.idle = ZERO  # how far the server got without anything for the outbox
        self.refusals: list[Refusal] = []  # all there were
        self._told = False  # whether the refusals were reported
        self.deadline = inf  # by when the relay has to have left, once it leaves
        self._sink, self._ledger, self._observer = sink, ledger, observer
        self._stalls = stalls or StallWatch(observer)
        self._stalls.begin(sink.trouble)
        self._waiting: deque[_Sample] = deque()
        self._noted = ZERO  # the last transaction that was put there
        self._behind: int | None = None  # as it was told

    @property
    def owed(self) -> int:
        """How many messages wait for a receipt that may still come."""
        return self._ledger.unsettled - len(self.refusals)

    @property
    def goes_on(self) -> bool:
        """Whether the sink still sends what it has."""
        return not any(refusal.ends for refusal in self.refusals)

    def mark(self, last: AnyRecord | None, *, over: bool = False) -> None:
        """Says how far a transaction got whose end is still to come: it may take longer than a group can stay open."""
        if last is not None:
            self.note_waiting(last)
        if self._ledger.in_transaction and last is not None and not self.refusals:  # `last` is past a refused one
            self._sink.mark(self._ledger.latest, last.commit_lsn, last.ordinal + 1, over=over)

    def note_waiting(self, record: AnyRecord) -> None:
        """Says that the transaction of `record` waits, for whoever asks how far behind the relay is."""
        if record.commit_lsn != self._noted:
            self._noted = record.commit_lsn
            self._waiting.append(_Sample(record.commit_lsn, record.committed_at, monotonic()))

    def settle(self, source: Source, timeout: float) -> None:
        """Fetches receipts, for which it waits up to `timeout` seconds, and confirms; Refused at the first refusal."""
        ledger = self._ledger
        self.fetch(timeout)
        if self.idle > ledger.confirmable:
            ledger.idle(source.vouch(self.idle))
        if source.confirm(ledger.confirmable):
            self._observer.saw(Confirmed(ledger.confirmable, ledger.unsettled))
        self._report_waiting(source)
        if self.refusals and not self._told:
            self._told = True
            raise refused(self.refusals)

    def no_room(self, seconds: float) -> NoRoom:
        """What ends a run that had no room for so long."""
        why = f"{seconds:.0f} s ({self._sink.trouble() or 'nothing was acknowledged'})"
        closing = "closing the replication stream so that checkpoints are not delayed"
        return NoRoom(f"the sink has accepted nothing for {why}; {closing}")

    def await_room(self, source: Source, stop: Callable[[], bool], leading: Callable[[], object]) -> None:
        """Fetches receipts until there is one, while nothing streams; a refusal is told by the next `settle`. With no
        message owed it was not the sink that had no room: then it waits for a moment.

        `leading` is called now and then, at once for the first time; it raises where the lead may be lost.
        """
        told = monotonic()
        waiting, asked, until = self.owed, 0.0, inf if self.owed else monotonic() + _MOMENT
        while self.owed == waiting and monotonic() < until and not self.refusals and not stop():
            if monotonic() - asked >= _LEADING_INTERVAL:
                leading()
                self._report_waiting(source)
                asked = monotonic()
            self.fetch(_AWAIT)
            before, told = told, monotonic()
            self._observer.saw(WaitedForRoom(told - before) if waiting else TURNED)

    def fetch(self, timeout: float) -> None:
        """Fetches receipts, for which it waits up to `timeout` seconds; a refusal is told by the next `settle`."""
        ledger, messages = self._ledger, 0
        for receipt in self._sink.receipts(timeout):
            if isinstance(receipt, Receipt):
                ledger.settle(receipt.ticket, receipt.messages)
                messages += receipt.messages
            else:
                self.refusals.append(receipt)
        if messages:
            self._observer.saw(Acknowledged(messages, ledger.unsettled))
        self._stalls.look(ledger.unsettled, ledger.progress)

    def ends_in(self, end: Fatal, *, stopping: bool) -> WalrelayError:
        """The error that ends the run: `end`, unless another run can publish more of the messages before it."""
        if not self.refusals:
            return end
        first = refused(self.refusals)
        return StopAhead(first) if first.place and self.owed and not stopping else first

    def _report_waiting(self, source: Source) -> None:
        since = self._oldest()
        source.report_waiting(since)
        if since != self._behind:
            self._behind = since
            self._observer.saw(Behind(since))

    def _oldest(self) -> int | None:
        """When the oldest transaction that has waited for long was committed, as exactly as the samples are."""
        waiting, confirmable = self._waiting, self._ledger.confirmable
        while waiting and waiting[0].commit_lsn < confirmable:
            sample = waiting.popleft()
            since_commit, since_read = max(0.0, time() - sample.committed_at / 1e6), monotonic() - sample.read_at
            self._observer.saw(Settled(since_commit, since_read, sample.commit_lsn))
        if not waiting:
            return None
        if len(waiting) > _SAMPLES:  # one topic may be stuck for hours while others move
            self._waiting = deque([*waiting][::2])
        oldest = waiting[0]
        long = monotonic() - oldest.read_at >= _LONG or time() - oldest.committed_at / 1e6 >= _LONG
        return oldest.committed_at if long else None

    def begin_to_leave(self, patience: float) -> None:
        """From now on the relay may take so many seconds; said once, as soon as it is known."""
        if self.deadline == inf:
            self.deadline = monotonic() + patience
            self._observer.saw(Stopping(self._ledger.unsettled, patience))

    def leave(self, source: Source, *, stopping: bool = False) -> LSN:
        """Confirms what is durable and ends the stream; up to where that was. `stopping`: in good order, for long."""
        ledger = self._ledger
        settled = stopping and not (ledger.unsettled or ledger.in_transaction or self.refusals)
        source.leave(ledger.confirmable, settled=settled)
        return ledger.confirmable

    def pause(self, source: Source, stop: Callable[[], bool]) -> None:
        """As `leave`, and keeps the connection."""
        source.pause(self._ledger.confirmable, stop)
