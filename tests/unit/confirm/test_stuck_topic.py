"""One topic is stuck while others move on (guarantees C6): the account stays small, and the stall is seen."""

from walrelay.confirm import Ledger
from walrelay.lsn import LSN


def stuck_behind_the_first(transactions: int) -> Ledger:
    """The first transaction waits for its receipt; all later ones have theirs."""
    ledger = Ledger(LSN(0))
    for end in range(1, transactions + 1):
        ticket = ledger.ticket
        ledger.enter()
        ledger.commit(LSN(end))
        if end > 1:
            ledger.settle(ticket, 1)
    return ledger


def test_a_stuck_transaction_does_not_make_the_ledger_grow() -> None:
    ledger = stuck_behind_the_first(100_000)
    assert len(ledger._ends) < 200
    assert len(ledger._owed) < 200


def test_what_was_settled_behind_a_stuck_transaction_is_confirmable_once_that_is_settled() -> None:
    ledger = stuck_behind_the_first(1000)
    assert ledger.confirmable == 0
    ledger.settle(0, 1)
    assert ledger.confirmable == 1000
    assert ledger.unsettled == 0


def test_receipts_behind_a_stuck_transaction_are_no_progress() -> None:
    ledger = stuck_behind_the_first(1000)
    assert ledger.progress == 0
    ledger.settle(0, 1)
    assert ledger.progress == 1


def test_receipts_of_a_transaction_that_is_still_being_read_are_progress() -> None:
    ledger = Ledger(LSN(0))
    for _ in range(3):
        ledger.enter()
    ledger.settle(0, 2)
    assert ledger.progress == 2
