"""The conformance suite as the author of a sink uses it, and that a sink which breaks its word does not pass."""

from collections import Counter, deque
from collections.abc import Iterable
from typing import Any

import pytest

from walrelay import testing
from walrelay.lsn import LSN, ZERO
from walrelay.model import Message, Receipt
from walrelay.testing import Arrived, AwayContract, Case


class Broker:
    """What is in its log stays."""

    def __init__(self) -> None:
        self.log: list[Message] = []
        self.away = False


class QueueSink:
    """Messages wait in a queue until the broker takes them."""

    def __init__(self, broker: Broker, room: int) -> None:
        self._broker, self._room = broker, room
        self._waiting: deque[tuple[Message, int]] = deque()
        self._settled: Counter[int] = Counter()

    def publish(self, message: Message, ticket: int) -> bool:
        self.flush(0)
        if len(self._waiting) >= self._room:
            return False
        self._waiting.append((message, ticket))
        return True

    def mark(self, end_lsn: LSN, commit_lsn: LSN = ZERO, ordinal: int = 0, *, over: bool = False) -> None:
        pass

    def receipts(self, timeout: float) -> Iterable[Receipt]:
        self.flush(timeout)
        settled, self._settled = self._settled, Counter()
        return [Receipt(ticket, count) for ticket, count in settled.items()]

    def flush(self, timeout: float) -> None:
        while self._waiting and not self._broker.away:
            message, ticket = self._next()
            self._broker.log.append(message)
            self._settled[ticket] += 1

    def close(self) -> None:
        self._waiting.clear()

    def descriptor(self) -> int | None:
        return None

    def trouble(self) -> str:
        return "the broker is away" if self._broker.away else ""

    def _next(self) -> tuple[Message, int]:
        return self._waiting.popleft()


class QueueCase:
    """The sink and its broker, as the suite wants them."""

    topic = "any"

    def __init__(self, sink: type[QueueSink] = QueueSink) -> None:
        self._broker, self._sink = Broker(), sink

    def open(self, *, room: int = 10_000) -> QueueSink:
        return self._sink(self._broker, room)

    def hold(self) -> None:
        self._broker.away = True

    def release(self) -> None:
        self._broker.away = False

    def arrived(self) -> list[Arrived]:
        return [Arrived(message.key, message.value, message.headers) for message in self._broker.log]


class TestQueueSink(AwayContract):
    @pytest.fixture
    def case(self) -> Case:
        return QueueCase()


class TakesAndRefuses(QueueSink):
    def publish(self, message: Message, ticket: int) -> bool:
        taken = super().publish(message, ticket)
        if not taken:
            self._waiting.append((message, ticket))
        return taken


class Reorders(QueueSink):
    def _next(self) -> tuple[Message, int]:
        return self._waiting.pop()


class CountsTwice(QueueSink):
    def receipts(self, timeout: float) -> Iterable[Receipt]:
        return [receipt for receipt in super().receipts(timeout) for _ in range(2)]


class SendsWhatIsClosed(QueueSink):
    def close(self) -> None:
        self._broker.away = False
        self.flush(0)


class Waits(QueueSink):
    now = 0.0

    def publish(self, message: Message, ticket: int) -> bool:
        Waits.now += 0.2
        return super().publish(message, ticket)


@pytest.mark.parametrize(
    ("broken", "test"),
    [
        (TakesAndRefuses, AwayContract.test_no_room_means_that_nothing_was_taken),
        (Reorders, AwayContract.test_no_room_means_that_nothing_was_taken),
        (CountsTwice, AwayContract.test_receipts_count_each_transaction_exactly),
        (SendsWhatIsClosed, AwayContract.test_close_lets_go_of_what_has_no_receipt),
    ],
)
def test_a_sink_that_breaks_its_word_does_not_pass(broken: type[QueueSink], test: Any) -> None:
    with pytest.raises(AssertionError):
        test(AwayContract(), QueueCase(broken))


def test_a_sink_that_waits_while_its_broker_is_away_does_not_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(testing, "monotonic", lambda: Waits.now)
    with pytest.raises(AssertionError, match="publish waits"):
        AwayContract().test_no_call_waits_longer_than_it_may_while_the_broker_is_away(QueueCase(Waits))
