"""Sinks that are done with a message as soon as they take it: nothing waits for a broker."""

from collections.abc import Iterable

from walrelay.lsn import LSN, ZERO
from walrelay.model import Message, Receipt


class ImmediateSink:
    """Implements `walrelay.publish.Sink` but for `take`. Its receipts are handed over when they are asked for."""

    def __init__(self) -> None:
        self._settled: dict[int, int] = {}  # ticket -> messages

    def take(self, message: Message) -> None:
        """Does with it all that is to be done."""

    def publish(self, message: Message, ticket: int) -> bool:
        self.take(message)
        self._settled[ticket] = self._settled.get(ticket, 0) + 1
        return True

    def mark(self, end_lsn: LSN, commit_lsn: LSN = ZERO, ordinal: int = 0, *, over: bool = False) -> None:
        pass

    def receipts(self, timeout: float) -> Iterable[Receipt]:
        settled, self._settled = self._settled, {}
        return [Receipt(ticket, count) for ticket, count in settled.items()]

    def flush(self, timeout: float) -> None:
        pass

    def close(self) -> None:
        pass

    def descriptor(self) -> int | None:
        return None

    def trouble(self) -> str:
        return ""
