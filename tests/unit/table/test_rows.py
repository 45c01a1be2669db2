"""Rows that are read from the table are published batch by batch."""

from collections.abc import Iterable

import pytest

from walrelay.errors import AS_IT_WAS_WRITTEN, AS_THE_TABLE_HAS_IT, RUN_AGAIN, START_AGAIN, Refused, Retryable
from walrelay.lsn import LSN, ZERO
from walrelay.model import Message, OutboxRecord, Receipt, Refusal
from walrelay.observe import Observers
from walrelay.route import Router
from walrelay.table.rows import BatchPublisher


class Sink:
    """Takes two messages at a time, and gives a receipt for one of them each time that it is asked."""

    def __init__(self, *, silent: bool = False, refuses: bytes | None = None, hint: str = "make it smaller") -> None:
        self.durable: list[bytes | None] = []
        self._waiting: list[tuple[int, Message]] = []
        self._silent, self._refuses, self._hint = silent, refuses, hint

    def publish(self, message: Message, ticket: int) -> bool:
        if len(self._waiting) == 2:
            return False
        self._waiting.append((ticket, message))
        return True

    def mark(self, end_lsn: LSN, commit_lsn: LSN = ZERO, ordinal: int = 0, *, over: bool = False) -> None:
        pass

    def receipts(self, timeout: float) -> Iterable[Receipt | Refusal]:
        if self._silent or not self._waiting:
            return []
        ticket, message = self._waiting.pop(0)
        if message.value == self._refuses:
            return [Refusal(ticket, message, "too large", self._hint)]
        self.durable.append(message.value)
        return [Receipt(ticket, 1)]

    def flush(self, timeout: float) -> None:
        pass

    def close(self) -> None:
        pass

    def descriptor(self) -> int | None:
        return None

    def trouble(self) -> str:
        return "the broker is away"


def records(*numbers: int) -> list[OutboxRecord]:
    rest = (None, None, None, None)
    return [OutboxRecord(LSN(8), n, 0, str(n), "order", "o", "placed", b"%d" % n, *rest) for n in numbers]


def test_a_batch_is_over_when_all_of_it_is_durable_however_little_room_the_sink_has() -> None:
    sink = Sink()
    backfill = BatchPublisher(Router("events"), sink, Observers(), lambda: False, grace=0)
    backfill.publish(records(1, 2, 3, 4, 5))
    assert sink.durable == [b"1", b"2", b"3", b"4", b"5"]
    backfill.publish(records(6))
    assert sink.durable[-1] == b"6"


def test_a_refusal_ends_it_and_names_the_row() -> None:
    backfill = BatchPublisher(Router("events"), Sink(refuses=b"2"), Observers(), lambda: False, grace=0)
    with pytest.raises(Refused, match="record 2 at 0/8:2 was refused") as caught:
        backfill.publish(records(1, 2, 3))
    assert caught.value.hint == "make it smaller"


@pytest.mark.parametrize(
    ("of_the_sink", "of_the_command"), [(AS_IT_WAS_WRITTEN, AS_THE_TABLE_HAS_IT), (START_AGAIN, RUN_AGAIN)]
)
def test_a_hint_names_the_command_that_publishes_from_the_table(of_the_sink: str, of_the_command: str) -> None:
    sink = Sink(refuses=b"2", hint=f"Create it. {of_the_sink}")
    with pytest.raises(Refused) as caught:
        BatchPublisher(Router("events"), sink, Observers(), lambda: False, grace=0).publish(records(1, 2, 3))
    assert caught.value.hint == f"Create it. {of_the_command}"


def test_a_stop_while_the_broker_is_away_is_waited_out_no_longer_than_it_may_take() -> None:
    backfill = BatchPublisher(Router("events"), Sink(silent=True), Observers(), lambda: True, grace=0.01)
    with pytest.raises(Retryable, match="the broker is away"):
        backfill.publish(records(1, 2, 3))
