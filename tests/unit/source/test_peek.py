"""The rounds in which a slot is peeked into: each begins at the slot's position, and none of them repeats."""

from collections.abc import Iterator
from typing import Any, cast

import pytest

from walrelay.errors import Retryable
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.connect import Connection
from walrelay.source import peek
from walrelay.source.peek import Peek, Row

TRANSACTIONS: list[list[Row]] = [
    [(position + 1, xid, b"B"), (position, xid, b"I"), (position, xid, b"I"), (position + 9, xid, b"C")]
    for position, xid in ((10, 7), (20, 5), (30, 6), (40, 9), (50, 8))
]
ALL = [row for transaction in TRANSACTIONS for row in transaction]


class Slot(Peek):
    """Answers as the server does: whole transactions, until there are enough rows; `moved` before the second round."""

    def __init__(self, moved: int = 0) -> None:
        super().__init__("", cast(Catalog, None), "walrelay", None, [], print)
        self.asked: list[int | None] = []
        self._moved = moved

    def read(self, at_least: int | None) -> Iterator[Row]:
        return self._rounds(None, at_least)  # type: ignore[arg-type]

    def _rows(self, connection: Any, at_least: int | None) -> Iterator[Row]:
        skipped = self._moved if self.asked else 0
        self.asked.append(at_least)
        count = 0
        for transaction in TRANSACTIONS[skipped:]:
            yield from transaction
            count += len(transaction)
            if at_least is not None and count >= at_least:
                return


@pytest.mark.parametrize("at_least", [1, 2, 4, 5, 8, 19, 20, 21, None])
def test_every_row_comes_once_in_order_however_small_the_first_round(at_least: int | None) -> None:
    assert list(Slot().read(at_least)) == ALL


def test_a_round_is_read_only_when_the_one_before_was_not_enough() -> None:
    slot = Slot()
    rows = slot.read(2)
    assert [next(rows) for _ in range(4)] == ALL[:4]
    assert slot.asked == [2]
    assert list(rows) == ALL[4:]
    assert slot.asked == [2, 16, 128]


def test_a_slot_that_moved_between_two_rounds_is_an_error_and_not_a_gap() -> None:
    rows = Slot(moved=1).read(2)
    assert [next(rows) for _ in range(4)] == ALL[:4]
    with pytest.raises(Retryable, match="moved while it was read"):
        next(rows)


def test_a_wait_for_a_standby_is_that_of_one_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first answer waited for a standby and came; what the second one waits for is another matter."""
    trouble, said = "standby slot one", list[str]()
    monkeypatch.setattr(peek, "blocking_standbys", lambda beside, slot: trouble)
    standbys = peek._Standbys(cast(Connection, None), cast(Catalog, None), "walrelay", said.append)
    standbys.look(5.0)
    standbys.look(0.1)
    trouble = "standby slot two"
    standbys.look(36.0)
    assert [note.split(": ")[1] for note in said] == ["standby slot one", "standby slot two"]
