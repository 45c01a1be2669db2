"""The conformance suite as the author of a sink uses it, and that a sink which breaks its word does not pass."""

from collections import Counter, deque
from collections.abc import Iterable
from typing import Any

import pytest

from walrelay.errors import Retryable
from walrelay.lsn import LSN, ZERO
from walrelay.model import Message, Receipt, Refusal
from walrelay.testing import Arrived, AwayContract, ConnectionContract, RefusalContract, RestartContract, case

BAD = b"bad"


class Broker:
    """What is in its log stays. `generation`: connections of an earlier one are broken."""

    def __init__(self) -> None:
        self.log: list[Message] = []
        self.away = False
        self.generation = 0


class QueueSink:
    """Messages wait in a queue until the broker takes them."""

    def __init__(self, broker: Broker, room: int) -> None:
        self._broker, self._room, self._generation = broker, room, broker.generation
        self._waiting: deque[tuple[Message, int]] = deque()
        self._settled: Counter[int] = Counter()
        self._refusals: list[Refusal] = []

    def publish(self, message: Message, ticket: int) -> bool:
        self.flush(0)
        if len(self._waiting) >= self._room or self._refusals or self._broken:
            return False
        self._waiting.append((message, ticket))
        return True

    def mark(self, end_lsn: LSN, commit_lsn: LSN = ZERO, ordinal: int = 0, *, over: bool = False) -> None:
        pass

    def receipts(self, timeout: float) -> Iterable[Receipt | Refusal]:
        self.flush(timeout)
        if self._settled:
            settled, self._settled = self._settled, Counter()
            return [Receipt(ticket, count) for ticket, count in settled.items()]
        if self._broken:
            raise Retryable("the connection is gone")
        refusals, self._refusals = self._refusals, []
        return refusals

    def flush(self, timeout: float) -> None:
        while self._waiting and not self._broker.away and not self._refusals and not self._broken:
            message, ticket = self._next()
            if message.value == BAD:
                self._refusals.append(Refusal(ticket, message, "it is bad", "Write a better one."))
                return
            self._broker.log.append(message)
            self._settled[ticket] += 1

    def close(self) -> None:
        self._waiting.clear()

    def descriptor(self) -> int | None:
        return None

    def trouble(self) -> str:
        return "the broker is away" if self._broker.away else ""

    @property
    def _broken(self) -> bool:
        return self._generation != self._broker.generation

    def _next(self) -> tuple[Message, int]:
        return self._waiting.popleft()


class QueueCase:
    """The sink and its broker, as the suite wants them."""

    topic = "any"

    def __init__(self, sink: type[QueueSink] = QueueSink) -> None:
        self._broker, self._sink = Broker(), sink

    def open(self, *, room: int = 10_000, seconds: float = 30) -> QueueSink:
        return self._sink(self._broker, room)

    def hold(self) -> None:
        self._broker.away = True

    def release(self) -> None:
        self._broker.away = False

    def cut(self) -> None:
        self._broker.generation += 1

    def start(self) -> None:
        self.release()
        self.cut()

    kill = half_open = hold
    resume = start

    def refused(self, message: Message) -> Message:
        return message._replace(value=BAD)

    def arrived(self) -> list[Arrived]:
        return [Arrived(message.key, message.value, message.headers) for message in self._broker.log]


class TestQueueSink(AwayContract, RestartContract, ConnectionContract, RefusalContract):
    @pytest.fixture
    def case(self) -> QueueCase:
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
    def receipts(self, timeout: float) -> Iterable[Receipt | Refusal]:
        return [receipt for receipt in super().receipts(timeout) for _ in range(2)]


class SendsWhatIsClosed(QueueSink):
    def close(self) -> None:
        self._broker.away = False
        self.flush(0)


class TellsTooEarly(QueueSink):
    """What it called durable goes with the connection."""

    def __init__(self, broker: Broker, room: int) -> None:
        super().__init__(broker, room)
        if broker.generation:
            del broker.log[-5:]


class DropsWhatItRefuses(QueueSink):
    """And goes on with what is behind it, before it says so."""

    def flush(self, timeout: float) -> None:
        refused = [each for each in self._waiting if each[0].value == BAD]
        self._waiting = deque(each for each in self._waiting if each[0].value != BAD)
        super().flush(timeout)
        self._refusals += [Refusal(ticket, message, "bad", "hint") for message, ticket in refused]

    def publish(self, message: Message, ticket: int) -> bool:
        self._waiting.append((message, ticket))
        return True


class RefusesWhenItIsAway(QueueSink):
    def receipts(self, timeout: float) -> Iterable[Receipt | Refusal]:
        if self._waiting and self._broken:
            message, ticket = self._waiting.popleft()
            return [Refusal(ticket, message, "the connection is gone", "Start it.")]
        return super().receipts(timeout)


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
        (TellsTooEarly, RestartContract.test_a_broker_that_is_killed_in_mid_window_loses_and_reorders_nothing),
        (TellsTooEarly, ConnectionContract.test_a_connection_without_its_other_end_is_given_up),
        (RefusesWhenItIsAway, RestartContract.test_a_broker_that_is_killed_in_mid_window_loses_and_reorders_nothing),
        (DropsWhatItRefuses, RefusalContract.test_nothing_of_its_key_overtakes_a_refused_message),
    ],
)
def test_a_sink_that_breaks_its_word_does_not_pass(broken: type[QueueSink], test: Any) -> None:
    with pytest.raises(AssertionError):
        test(TestQueueSink(), QueueCase(broken))


def test_a_sink_that_waits_while_its_broker_is_away_does_not_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(case, "monotonic", lambda: Waits.now)
    with pytest.raises(AssertionError, match="publish waits"):
        AwayContract().test_no_call_waits_longer_than_it_may_while_the_broker_is_away(QueueCase(Waits))
