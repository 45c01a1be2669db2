"""The ledger, case by case; tests/properties has it against an independent model."""

import pytest

from walrelay.confirm import Ledger
from walrelay.errors import LedgerError
from walrelay.lsn import LSN


@pytest.fixture
def ledger() -> Ledger:
    return Ledger(LSN(100))


def transaction(ledger: Ledger, messages: int, end: int) -> int:
    """A whole transaction; its ticket."""
    ticket = ledger.ticket
    for _ in range(messages):
        ledger.enter()
    ledger.commit(LSN(end))
    return ticket


def test_a_new_ledger_confirms_where_it_starts(ledger: Ledger) -> None:
    assert (ledger.confirmable, ledger.unsettled, ledger.in_transaction) == (100, 0, False)


def test_confirmable_is_the_end_of_a_transaction_whose_messages_all_have_receipts(ledger: Ledger) -> None:
    ticket = transaction(ledger, 3, 200)
    ledger.settle(ticket, 2)
    assert (ledger.confirmable, ledger.unsettled) == (100, 1)
    ledger.settle(ticket, 1)
    assert (ledger.confirmable, ledger.unsettled) == (200, 0)


def test_confirmable_never_passes_an_unsettled_transaction(ledger: Ledger) -> None:
    """Section D: D5, the last receipt won."""
    first, second, third = (transaction(ledger, 1, end) for end in (200, 300, 400))
    ledger.settle(third, 1)
    ledger.settle(second, 1)
    assert ledger.confirmable == 100
    ledger.settle(first, 1)
    assert ledger.confirmable == 400


def test_receipts_before_the_commit_confirm_nothing_until_it_comes(ledger: Ledger) -> None:
    """Section D: D8 and D33, a border in the middle of a transaction."""
    ledger.enter()
    ledger.settle(0, 1)
    assert (ledger.confirmable, ledger.in_transaction) == (100, True)
    ledger.enter()
    ledger.commit(LSN(200))
    assert ledger.confirmable == 100
    ledger.settle(0, 1)
    assert ledger.confirmable == 200


def test_a_transaction_without_messages_is_confirmable_at_once_unless_something_waits(ledger: Ledger) -> None:
    transaction(ledger, 0, 200)
    assert ledger.confirmable == 200
    waiting = transaction(ledger, 1, 300)
    transaction(ledger, 0, 400)
    assert ledger.confirmable == 200
    ledger.settle(waiting, 1)
    assert ledger.confirmable == 400


def test_idle_progress_is_confirmable_at_once_when_nothing_waits(ledger: Ledger) -> None:
    ledger.idle(LSN(150))
    assert ledger.confirmable == 150


def test_idle_progress_waits_for_what_stands_before_it(ledger: Ledger) -> None:
    """Section D: D1 and D4."""
    ticket = transaction(ledger, 1, 200)
    ledger.idle(LSN(250))
    assert ledger.confirmable == 100
    ledger.settle(ticket, 1)
    assert ledger.confirmable == 250


def test_idle_progress_inside_a_transaction_says_nothing(ledger: Ledger) -> None:
    ledger.enter()
    ledger.settle(0, 1)
    ledger.idle(LSN(500))
    assert ledger.confirmable == 100
    ledger.commit(LSN(200))
    assert ledger.confirmable == 200


def test_idle_progress_never_goes_back(ledger: Ledger) -> None:
    for lsn in (150, 120, 150):
        ledger.idle(LSN(lsn))
        assert ledger.confirmable == 150
    ticket = transaction(ledger, 1, 200)
    ledger.idle(LSN(170))
    ledger.settle(ticket, 1)
    assert ledger.confirmable == 200


def test_each_transaction_has_a_ticket_of_its_own(ledger: Ledger) -> None:
    assert [transaction(ledger, 1, end) for end in (200, 300, 400)] == [0, 1, 2]
    assert ledger.ticket == 3


def test_a_commit_before_an_earlier_end_is_a_broken_promise(ledger: Ledger) -> None:
    transaction(ledger, 1, 200)
    with pytest.raises(LedgerError, match="ends at 0/C7, but 0/C8 came before it"):
        ledger.commit(LSN(199))


def test_a_commit_before_idle_progress_is_a_broken_promise(ledger: Ledger) -> None:
    ledger.idle(LSN(500))
    with pytest.raises(LedgerError):
        transaction(ledger, 1, 300)


@pytest.mark.parametrize(("ticket", "count"), [(0, 3), (0, 0), (0, -1), (1, 1), (99, 1)])
def test_a_receipt_for_what_is_not_open_is_a_broken_promise_and_changes_nothing(
    ledger: Ledger, ticket: int, count: int
) -> None:
    transaction(ledger, 2, 200)
    with pytest.raises(LedgerError, match=f"a receipt for {count} messages of transaction {ticket}"):
        ledger.settle(ticket, count)
    assert (ledger.confirmable, ledger.unsettled) == (100, 2)


def test_a_receipt_that_comes_twice_is_a_broken_promise(ledger: Ledger) -> None:
    ticket = transaction(ledger, 1, 200)
    ledger.settle(ticket, 1)
    with pytest.raises(LedgerError):
        ledger.settle(ticket, 1)


def test_what_is_settled_takes_no_memory(ledger: Ledger) -> None:
    for end in range(200, 300):
        ledger.settle(transaction(ledger, 5, end), 5)
        ledger.idle(LSN(end))
    assert len(ledger._owed) == 1
    assert len(ledger._ends) == 0


def test_a_transaction_takes_one_entry_however_many_messages_it_has(ledger: Ledger) -> None:
    transaction(ledger, 1000, 200)
    assert len(ledger._owed) == 2
    assert len(ledger._ends) == 1
