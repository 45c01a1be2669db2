"""A group: what one Kafka transaction holds, and the mark, the position that its messages end at.

Pure: no broker and no clock. Whoever asks says what time it is.
"""

from typing import NamedTuple

from walrelay.model import Message, Position, Receipt


class Offer(NamedTuple):
    """A message that was taken, and of which transaction."""

    ticket: int
    message: Message


class Limits(NamedTuple):
    """When a group is full or overdue."""

    messages: int
    bytes: int
    interval: float  # seconds
    longest: float  # seconds, after which a group ends even inside a transaction of PostgreSQL


class Group:
    """The group that is open, or the next one. The mark outlives it: it says where the stream is."""

    def __init__(self, limits: Limits, mark: Position, *, keeps_offers: bool) -> None:
        self.mark = mark
        self.ticket = 0  # of the message that was taken last
        self.pending = 0  # messages that were taken since the mark
        self.messages = 0  # up to the mark
        self.offers: list[Offer] = []  # what was taken, in its order, if that is to be kept
        self._limits, self._keeps_offers = limits, keeps_offers
        self._receipts: list[Receipt] = []  # up to the mark
        self._bytes = 0
        self._began = self._marked = 0.0

    def begin(self, now: float) -> None:
        self._began = now

    def take(self, ticket: int, message: Message) -> None:
        self.ticket = ticket
        self.pending += 1
        self._bytes += len(message.value) if message.value else 0
        if self._keeps_offers:
            self.offers.append(Offer(ticket, message))

    def set_mark(self, mark: Position, now: float) -> None:
        """All that was taken so far ends at or before `mark`."""
        self.mark, self._marked = mark, now
        if self.pending:
            self._receipts.append(Receipt(self.ticket, self.pending))
            self.messages += self.pending
            self.pending = 0

    @property
    def is_whole(self) -> bool:
        """Whether it holds whole transactions of PostgreSQL."""
        return self.pending == 0 and self.mark.ordinal == 0

    def is_full(self, now: float) -> bool:
        limits = self._limits
        return self.messages >= limits.messages or self._bytes >= limits.bytes or now - self._began >= limits.interval

    def is_overdue(self, now: float) -> bool:
        """Whether it has to end even inside a transaction, before the broker takes it back."""
        return now - self._began > self._limits.longest

    def unmarked_for(self, now: float) -> float:
        """Seconds since the mark was set."""
        return now - self._marked

    def committed(self) -> list[Receipt]:
        """The group's receipts; the next group is empty."""
        receipts, self._receipts = self._receipts, []
        self.offers = []
        self.messages = self._bytes = 0
        return receipts
