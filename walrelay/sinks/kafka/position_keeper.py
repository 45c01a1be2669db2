"""A relay's own position in Kafka with `delivery: at_least_once`: written after its messages have their receipts.

Each position is a Kafka transaction, so that an earlier run is fenced off: one that was frozen, or whose broker was
away, must not write an older position after its successor's. At the next start the slot would seem to have been moved.
"""

from time import monotonic

from walrelay.errors import Retryable
from walrelay.lsn import LSN, ZERO
from walrelay.model import RelayPosition, System
from walrelay.sinks.kafka.settings import KafkaSettings
from walrelay.sinks.kafka.transactions import KafkaTransactions

_FENCE_WAIT = 30.0  # seconds


class KafkaPositionKeeper:
    """Implements `walrelay.publish.contract.PositionKeeper` with a producer of its own."""

    def __init__(self, settings: KafkaSettings, system: System, slot: str) -> None:
        self._transactions = KafkaTransactions(settings, system, slot, turns=1)
        self._fenced = False

    def fence(self) -> bool:
        self._fenced = self._fenced or self._transactions.fence()
        return self._fenced

    def trouble(self) -> str:
        return self._transactions.trouble()

    def last(self) -> RelayPosition | None:
        deadline = monotonic() + _FENCE_WAIT
        while not self.fence():
            if monotonic() > deadline:
                raise Retryable(f"the topic for positions could not be reached: {self.trouble()}")
        return self._transactions.last()

    def keep(self, position: RelayPosition) -> LSN:
        if not self.fence():
            return ZERO
        kept = self._transactions.keep(position)
        if kept < position.lsn:
            self._transactions.receipts(0)  # there are none; raises what broke
        return kept
