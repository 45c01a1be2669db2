"""Publishing rows that were read from the table: batch by batch, each durable before the next one is begun.

What walrelay.slots says to be reached is reached, then, and a crash repeats at most one batch.
"""

from collections.abc import Callable, Iterable
from math import inf
from time import monotonic

from walrelay.errors import AS_IT_WAS_WRITTEN, AS_THE_TABLE_HAS_IT, Fatal, Retryable
from walrelay.model import Message, OutboxRecord, Receipt
from walrelay.observe import Observer, StallWatch
from walrelay.publish import Sink, refused
from walrelay.route import Routing

_WAIT = 0.05  # how long to wait for receipts at a time


class Backfill:
    """The stages of one reading: route, publish, wait for the receipts. After an error it is not used again."""

    def __init__(self, router: Routing, sink: Sink, observer: Observer, stop: Callable[[], bool], grace: float) -> None:
        """`grace`: seconds that a batch may still take after `stop` became true."""
        self._route, self._sink, self._stop, self._grace = router.route, sink, stop, grace
        self._stalls = StallWatch(observer, sink.trouble)
        self._ticket = self._unsettled = self._settled = 0
        self._deadline = inf

    def publish(self, records: Iterable[OutboxRecord]) -> None:
        """Returns when every message of the records is durable. A sink without room is waited for."""
        try:
            self._publish(records)
        except Fatal as error:
            error.hint = error.hint.replace(AS_IT_WAS_WRITTEN, AS_THE_TABLE_HAS_IT)
            raise

    def _publish(self, records: Iterable[OutboxRecord]) -> None:
        self._stalls.saw(0, self._settled)
        for record in records:
            for message in self._route(record):
                self._offer(message)
        while self._unsettled:
            self._sink.flush(_WAIT)
            self._settle()
        self._ticket += 1

    def _offer(self, message: Message) -> None:
        while not self._sink.publish(message, self._ticket):
            self._settle()
        self._unsettled += 1

    def _settle(self) -> None:
        for receipt in self._sink.receipts(_WAIT):
            if not isinstance(receipt, Receipt):
                raise refused([receipt])
            self._unsettled -= receipt.messages
            self._settled += receipt.messages
        self._stalls.saw(self._unsettled, self._settled)
        if self._stop():
            self._deadline = min(self._deadline, monotonic() + self._grace)
            if monotonic() > self._deadline:
                raise Retryable(f"{self._unsettled} messages have no receipt yet ({self._sink.trouble() or 'waiting'})")
