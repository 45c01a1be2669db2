"""A group: the messages of one Kafka transaction, and the position that they end at, its mark. If the transaction
fails: which messages caused it, and what the sink does next.

Pure: no broker, and no clock (`now` is a parameter).
"""

from collections.abc import Sequence
from typing import NamedTuple

from confluent_kafka import KafkaError

from walrelay.errors import Retryable
from walrelay.model import Message, Receipt, RelayPosition
from walrelay.sinks.kafka.batching import BatchingHistory
from walrelay.sinks.kafka.errors import Failure
from walrelay.sinks.kafka.settings import KafkaSettings


class Offer(NamedTuple):
    """A message, and the ticket of its transaction."""

    ticket: int
    message: Message


class GroupLimits(NamedTuple):
    """When a group is full or overdue."""

    messages: int
    bytes: int
    interval: float  # seconds
    longest: float  # seconds; then a group ends even inside a transaction of PostgreSQL


def limits_of(settings: KafkaSettings) -> GroupLimits:
    return GroupLimits(
        settings.group_messages,
        settings.group_bytes,
        settings.group_interval,
        settings.transaction_timeout / 3,
    )


class Group:
    """One object for all groups in turn. The mark stays from one to the next: it is the stream's position."""

    def __init__(self, limits: GroupLimits, mark: RelayPosition, *, keeps_offers: bool) -> None:
        self.mark = mark
        self.ticket = 0  # of the last message
        self.pending = 0  # messages since the mark
        self.messages = 0  # up to the mark
        self.offers: list[Offer] = []  # all messages in order, if `keeps_offers`
        self._limits, self._keeps_offers = limits, keeps_offers
        self._receipts: list[Receipt] = []  # up to the mark
        self._bytes = self._asked = 0
        self._began = self._marked = 0.0

    def open(self, now: float) -> None:
        self._began, self._asked = now, 0

    def take(self, ticket: int, message: Message) -> None:
        self.ticket = ticket
        self.pending += 1
        self._bytes += len(message.value) if message.value else 0
        if self._keeps_offers:
            self.offers.append(Offer(ticket, message))

    @property
    def next_number(self) -> int:
        """Under which the next message can be found in `offers`."""
        return len(self.offers)

    def set_mark(self, mark: RelayPosition, now: float) -> None:
        """All messages so far end at or before `mark`."""
        self.mark, self._marked = mark, now
        if self.pending:
            self._receipts.append(Receipt(self.ticket, self.pending))
            self.messages += self.pending
            self.pending = 0

    @property
    def is_whole(self) -> bool:
        """Whether it ends where a transaction of PostgreSQL does."""
        return self.pending == 0 and self.mark.ordinal == 0

    def is_full(self, now: float) -> bool:
        limits = self._limits
        return self.messages >= limits.messages or self._bytes >= limits.bytes or now - self._began >= limits.interval

    def is_overdue(self, now: float) -> bool:
        """Whether it has to end even inside a transaction of PostgreSQL: the broker aborts it otherwise."""
        return now - self._began > self._limits.longest

    def asks_for_its_end(self, now: float) -> bool:
        """Whether it is overdue, once for each message: a relay that has only a part of a record's messages published
        cannot mark, and offers the next one again.
        """
        if self._asked == self.pending or not self.is_overdue(now):
            return False
        self._asked = self.pending
        return True

    def unmarked_for(self, now: float) -> float:
        return now - self._marked

    def committed(self) -> list[Receipt]:
        """Empties the group; returns its receipts."""
        receipts, self._receipts = self._receipts, []
        self.offers = []
        self.messages = self._bytes = 0
        return receipts


_FENCED = {KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH}


def culprits(failures: Sequence[Failure]) -> list[Failure]:
    """The failures that are certain refusals."""
    return [each for each in failures if each.is_refusal and each.certain]


def why_the_run_ends(
    failures: Sequence[Failure], broken: KafkaError | None, slot: str, history: BatchingHistory
) -> Retryable:
    """The error where no culprit is known. `broken`: why the producer takes nothing more; it or a failure is there.

    A refused batch is noted in `history`, which the next run begins with.
    """
    for each in failures:
        if each.is_refusal:
            return history.without_batches(each.message.topic, each.error)
    error = broken or failures[0].error
    if error.code() in _FENCED:
        return Retryable(f"another instance publishes for slot {slot!r} now: {error.str()}")
    return Retryable(f"the Kafka transaction was aborted: {error.str()}")
