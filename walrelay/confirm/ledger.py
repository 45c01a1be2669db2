"""The ledger: which position PostgreSQL may forget up to.

Transactions come in commit order; receipts for their messages come in any order, because topics, partitions and
brokers differ in speed. The ledger is a queue of the committed transactions, in commit order, and for each the number
of its messages that have no receipt yet. What may be confirmed is the end of the longest prefix that is settled.

    Invariant: every message of every transaction that ends at or before `confirmable` has its receipt.

Idle progress (a keepalive, a transaction without outbox records) is an empty transaction: it extends the last one in
the queue, so it waits for what comes before it. A transaction costs one entry, however many rows it has, and
what is settled behind something unsettled is merged: one stuck topic must not make the ledger grow while others move.
"""

from collections import deque

from walrelay.errors import LedgerError
from walrelay.lsn import LSN

_FEW = 100  # entries that are not worth merging


class Ledger:
    """The account of one connection's stream, from the position it starts at; a new connection opens a new one."""

    def __init__(self, start: LSN) -> None:
        self.confirmable = start
        self.unsettled = 0  # messages without a receipt, over all transactions
        self.progress = 0  # messages with a receipt, of transactions that were the oldest one when it came
        self.ticket = 0  # the number of the transaction being read; the sink gets it with each of its messages
        self._entered = 0  # messages of it so far; its Commit is still to come
        self._owed = {0: 0}  # ticket -> messages without a receipt; of the one being read, less those entered
        self._ends: deque[tuple[int, LSN]] = deque()  # (ticket, end) of the committed ones, oldest first
        self.latest = start  # the end of the last transaction that was read, or how far the server got without one

    @property
    def in_transaction(self) -> bool:
        """Messages of the transaction being read were published, its Commit is still to come."""
        return self._entered > 0

    def enter(self) -> None:
        """A message of the transaction being read was handed to the sink."""
        self._entered += 1
        self.unsettled += 1

    def commit(self, end_lsn: LSN) -> None:
        """The transaction being read ends at `end_lsn` (Commit.end_lsn, never its start: guarantees A1)."""
        if end_lsn < self.latest:
            raise LedgerError(f"a commit ends at {end_lsn}, but {self.latest} came before it")
        ticket, owed = self.ticket, self._owed
        self.latest = end_lsn
        self._ends.append((ticket, end_lsn))
        owed[ticket] += self._entered
        self._entered = 0
        self.ticket = ticket + 1
        owed[ticket + 1] = 0
        if owed[ticket] == 0:
            self._advance()

    def idle(self, lsn: LSN) -> None:
        """The server got to `lsn` and has nothing more for the outbox before it; no effect inside a transaction."""
        if self._entered or lsn <= self.latest:
            return
        self.latest = lsn
        if self._ends:
            self._ends[-1] = (self._ends[-1][0], lsn)
        else:
            self.confirmable = lsn

    def settle(self, ticket: int, count: int) -> None:
        """`count` messages of the transaction `ticket` are durable."""
        entered = self._entered if ticket == self.ticket else 0
        owed = self._owed.get(ticket, 0) - count
        if owed + entered < 0 or count < 1:
            had = owed + entered + count
            raise LedgerError(f"a receipt for {count} messages of transaction {ticket}, which has {had} open")
        self._owed[ticket] = owed
        self.unsettled -= count
        if ticket == (self._ends[0][0] if self._ends else self.ticket):
            self.progress += count
        if owed == 0:
            self._advance()
            if len(self._ends) > 2 * self.unsettled + _FEW:
                self._merge()

    def _merge(self) -> None:
        ends: deque[tuple[int, LSN]] = deque()
        for ticket, end in self._ends:
            if ends and self._owed[ticket] == 0:
                ends[-1] = (ends[-1][0], end)
                del self._owed[ticket]
            else:
                ends.append((ticket, end))
        self._ends = ends

    def _advance(self) -> None:
        while self._ends and self._owed[self._ends[0][0]] == 0:
            ticket, self.confirmable = self._ends.popleft()
            del self._owed[ticket]
