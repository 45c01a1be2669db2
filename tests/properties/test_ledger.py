"""The ledger against a naive model: a list of transactions, and the rule said as plainly as it can be.

The model keeps everything for ever and looks at all of it each time: what may be confirmed is the last position
before which nothing is open.
"""

from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from walrelay.confirm import Ledger
from walrelay.lsn import LSN

START = LSN(1_000)


class Happened(NamedTuple):
    """One thing in the order of the stream: the end of a transaction (its ticket) or idle progress (None)."""

    position: LSN
    ticket: int | None


class Story(RuleBasedStateMachine):
    """Any interleaving of messages, commits, idle progress and receipts."""

    @initialize()
    def begin(self) -> None:
        self.ledger = Ledger(START)
        self.history: list[Happened] = []
        self.open: dict[int, int] = {}  # ticket -> messages without a receipt; the one being read is there as well
        self.published_in_this_one = 0
        self.ticket = 0
        self.wal = START
        self.before = START

    @rule(messages=st.integers(1, 4))
    def publish(self, messages: int) -> None:
        for _ in range(messages):
            self.ledger.enter()
        self.open[self.ticket] = self.open.get(self.ticket, 0) + messages
        self.published_in_this_one += messages

    @rule(size=st.integers(0, 3))
    def commit(self, size: int) -> None:
        self.wal = LSN(self.wal + size)
        self.ledger.commit(self.wal)
        self.history.append(Happened(self.wal, self.ticket))
        self.ticket, self.published_in_this_one = self.ticket + 1, 0

    @precondition(lambda self: not self.published_in_this_one)
    @rule(size=st.integers(0, 3))
    def idle(self, size: int) -> None:
        self.wal = LSN(self.wal + size)
        self.ledger.idle(self.wal)
        self.history.append(Happened(self.wal, None))

    @rule(back=st.integers(0, 50))
    def stale_keepalive(self, back: int) -> None:
        self.ledger.idle(LSN(self.wal - back))

    @precondition(lambda self: self.published_in_this_one)
    @rule(ahead=st.integers(0, 50))
    def keepalive_inside_a_transaction(self, ahead: int) -> None:
        self.ledger.idle(LSN(self.wal + ahead))

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def receipt(self, data: st.DataObject) -> None:
        ticket = data.draw(st.sampled_from(sorted(self.open)))
        self.settle(ticket, data.draw(st.integers(1, self.open[ticket])))

    @precondition(lambda self: self.open)
    @rule()
    def all_receipts_the_latest_first(self) -> None:
        for ticket in sorted(self.open, reverse=True):
            self.settle(ticket, self.open[ticket])

    def settle(self, ticket: int, count: int) -> None:
        self.ledger.settle(ticket, count)
        self.open[ticket] -= count
        if not self.open[ticket]:
            del self.open[ticket]

    def expected(self) -> LSN:
        confirmable = START
        for happened in self.history:
            if happened.ticket in self.open:
                break
            confirmable = happened.position
        return confirmable

    @invariant()
    def confirmable_is_the_end_of_what_is_settled_from_the_beginning(self) -> None:
        assert self.ledger.confirmable == self.expected()

    @invariant()
    def confirmable_never_goes_back(self) -> None:
        assert self.before <= self.ledger.confirmable
        self.before = self.ledger.confirmable

    @invariant()
    def what_waits_is_counted(self) -> None:
        assert self.ledger.unsettled == sum(self.open.values())
        assert self.ledger.in_transaction == bool(self.published_in_this_one)
        assert self.ledger.ticket == self.ticket

    def teardown(self) -> None:
        """Once all is settled the ledger is at the end, and empty."""
        if not hasattr(self, "ledger"):
            return
        if self.published_in_this_one:
            self.commit(1)
        for ticket in sorted(self.open):
            self.settle(ticket, self.open[ticket])
        self.confirmable_is_the_end_of_what_is_settled_from_the_beginning()
        assert self.ledger.confirmable == self.wal
        assert (len(self.ledger._ends), len(self.ledger._owed)) == (0, 1)


Story.TestCase.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
TestStory = Story.TestCase


@given(st.permutations(range(8)), st.lists(st.integers(0, 3), min_size=8, max_size=8))
def test_any_order_of_receipts_confirms_the_longest_settled_prefix(order: list[int], sizes: list[int]) -> None:
    """Section D: D5."""
    ledger = Ledger(LSN(0))
    for number, size in enumerate(sizes):
        for _ in range(size):
            ledger.enter()
        ledger.commit(LSN(number + 1))
    waiting = {number for number, size in enumerate(sizes) if size}
    for number in order:
        if number in waiting:
            ledger.settle(number, sizes[number])
            waiting.remove(number)
        assert ledger.confirmable == min(waiting, default=8)
