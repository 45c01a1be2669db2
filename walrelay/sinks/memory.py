"""The memory sink: keeps the last messages in a list. For tests and for trying things out; nothing is durable."""

from collections import Counter, deque
from collections.abc import Iterable, Sequence

from pydantic import BaseModel, ConfigDict, Field

from walrelay.lsn import LSN, ZERO
from walrelay.model import Finding, Message, Receipt
from walrelay.publish import SinkPlugin, SinkTraits


class MemorySettings(BaseModel):
    """`kind: memory`: messages stay in memory and are lost when the process ends."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    keep: int = Field(1000, ge=0, description="How many of the latest messages are kept.")


class MemorySink:
    """Reports a message as durable when it is asked for receipts."""

    def __init__(self, keep: int = 1000) -> None:
        self.messages: deque[Message] = deque(maxlen=keep)
        self._unsettled: Counter[int] = Counter()

    def publish(self, message: Message, ticket: int) -> bool:
        self.messages.append(message)
        self._unsettled[ticket] += 1
        return True

    def mark(self, end_lsn: LSN, commit_lsn: LSN = ZERO, ordinal: int = 0, *, over: bool = False) -> None:
        pass

    def receipts(self, timeout: float) -> Iterable[Receipt]:
        settled, self._unsettled = self._unsettled, Counter()
        return [Receipt(ticket, count) for ticket, count in settled.items()]

    def flush(self, timeout: float) -> None:
        pass

    def close(self) -> None:
        pass

    def descriptor(self) -> int | None:
        return None

    def trouble(self) -> str:
        return ""


def _examine(settings: MemorySettings, topics: Sequence[str]) -> Iterable[Finding]:
    return [Finding("sink", "warning", "the memory sink forgets everything when the process ends")]


plugin = SinkPlugin(
    MemorySettings,
    open=lambda settings, memory: MemorySink(settings.keep),
    examine=_examine,
    traits=SinkTraits(
        durable="in this process, until it ends",
        order="of commits",
        repeats="recognised by the header id",
        headers="any",
        size="any",
    ),
)
