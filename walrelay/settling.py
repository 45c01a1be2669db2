"""From receipts to confirmation: what the sink has made durable becomes what PostgreSQL is told."""

from walrelay.confirm import Ledger
from walrelay.lsn import LSN, ZERO
from walrelay.model import OutboxRecord, Receipt
from walrelay.observe import Observer, StallWatch
from walrelay.publish import Sink, refused
from walrelay.source.contract import Source


class Settling:
    """Over one connection at a time: after a reconnection `over` another one, with the same ledger and sink."""

    def __init__(self, source: Source, sink: Sink, ledger: Ledger, observer: Observer) -> None:
        self.over(source)
        self._sink, self._ledger, self._observer = sink, ledger, observer
        self._stalls = StallWatch(observer, sink.trouble)

    def over(self, source: Source) -> None:
        """From now on over `source`; what the server said of its progress it says again."""
        self.source = source
        self.idle = ZERO  # how far the server got without anything for the outbox

    def mark(self, last: OutboxRecord | None, *, over: bool = False) -> None:
        """Says how far a transaction got whose end is still to come: it may take longer than a group can stay open."""
        if self._ledger.in_transaction and last is not None:
            self._sink.mark(self._ledger.latest, last.commit_lsn, last.ordinal + 1, over=over)

    def settle(self, timeout: float) -> None:
        """Fetches receipts, for which it waits up to `timeout` seconds, and confirms; Refused if one is a refusal."""
        ledger, refusals = self._ledger, []
        for receipt in self._sink.receipts(timeout):
            if isinstance(receipt, Receipt):
                ledger.settle(receipt.ticket, receipt.messages)
            else:
                refusals.append(receipt)
        if self.idle > ledger.confirmable:
            ledger.idle(self.source.vouch(self.idle))
        if self.source.confirm(ledger.confirmable):
            self._observer.confirmed(ledger.confirmable, ledger.unsettled)
        self._stalls.saw(ledger.unsettled, ledger.progress)
        if refusals:
            raise refused(refusals[0])

    def leave(self) -> LSN:
        """Confirms what is durable and ends the stream; up to where that was."""
        self.source.leave(self._ledger.confirmable)
        return self._ledger.confirmable
