"""What the relay does with a sink, as a test needs it: in order, again after every failure, and without PostgreSQL."""

from collections import deque
from collections.abc import Callable, Sequence
from threading import Event
from time import monotonic

from walrelay.errors import Retryable
from walrelay.model import Message, Receipt, Refusal
from walrelay.publish import Sink
from walrelay.testing.case import Arrived, numbers

_OFFERED = 200  # messages between two questions for receipts
_PAUSE = 0.05  # seconds before a new sink is opened


class Relaying:
    """Offers the messages in their order. After a Retryable, or a refusal that ends the sink, it opens a new one and
    begins at the oldest message without a receipt. What was refused is left out then, as a dead letter is.
    """

    def __init__(self, open_sink: Callable[[], Sink], messages: Sequence[Message]) -> None:
        self._open, self._messages = open_sink, messages
        self.durable = set[int]()  # by number
        self.refused: dict[int, Refusal] = {}
        self.failures: list[str] = []
        self.full = False
        """Whether there was no room when a message was offered last."""
        self._sink: Sink | None = None
        self._left = deque[int]()

    @property
    def complete(self) -> bool:
        return len(self.durable) + len(self.refused) == len(self._messages)

    @property
    def trouble(self) -> str:
        return self._sink.trouble() if self._sink is not None else ""

    def go_on(self, until: Callable[[], object], what: str, timeout: float = 60) -> None:
        deadline = monotonic() + timeout
        while not until():
            last = f"{len(self.durable)} of {len(self._messages)} are durable; {self.failures[-1:] or self.trouble}"
            assert monotonic() < deadline, f"waited {timeout:g} s for {what}: {last}"
            self._step()

    def close(self) -> None:
        if self._sink is not None:
            self._sink.close()
            self._sink = None

    def _step(self) -> None:
        if self._sink is None:
            self._sink = self._open()
            self._left = deque(n for n in range(len(self._messages)) if n not in self.durable | self.refused.keys())
        try:
            self._offer(self._sink)
            if not self._hear(self._sink):
                self.close()
        except Retryable as why:
            self.failures.append(str(why))
            self.close()
            Event().wait(_PAUSE)

    def _offer(self, sink: Sink) -> None:
        for _ in range(min(_OFFERED, len(self._left))):
            number = self._left[0]
            self.full = not sink.publish(self._messages[number], number)
            if self.full:
                return
            self._left.popleft()

    def _hear(self, sink: Sink) -> bool:
        """Whether the sink goes on."""
        if not self._left:
            sink.flush(0.02)
        for told in sink.receipts(0.02):
            if isinstance(told, Receipt):
                assert told.messages == 1, f"{told.messages} receipts for one message"
                assert told.ticket not in self.durable, f"a second receipt for message {told.ticket}"
                self.durable.add(told.ticket)
                continue
            number = told.ticket
            assert told.message is self._messages[number], "a refusal has the message that was offered"
            assert told.reason, "a refusal without a reason"
            assert told.hint, "a refusal without a hint"
            self.refused[number] = told
            if told.ends:
                return False
        return True


def check_arrived(relaying: Relaying, arrived: Sequence[Arrived], messages: Sequence[Message]) -> None:
    """Nothing is lost, what was refused did not arrive, and the first occurrences of each key are in their order."""
    assert all(relaying.failures), "an error without a text"
    for key in {each.key for each in messages}:
        assert key is not None
        expected = [n for n, each in enumerate(messages) if each.key == key and n not in relaying.refused]
        got = list(dict.fromkeys(numbers([*arrived], key.decode())))
        assert got == expected, f"of key {key!r}: {len(got)} of {len(expected)} arrived, or in another order"
