"""The memory sink: keeps the last messages in a list. For tests and for trying things out; nothing is durable."""

from collections import deque
from collections.abc import Iterable, Sequence

from pydantic import BaseModel, ConfigDict, Field

from walrelay.model import Finding, Message
from walrelay.publish import SinkPlugin, SinkTraits
from walrelay.sinks.immediate import ImmediateSink

KEEP = "If events matter: set sink.kind to a broker's, see `walrelay sinks`."
"""What the doctor says of a sink that keeps nothing."""


class MemorySettings(BaseModel):
    """`kind: memory`: messages stay in memory and are lost when the process ends."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    keep: int = Field(1000, ge=0, description="How many of the latest messages are kept.")


class MemorySink(ImmediateSink):
    """Reports a message as durable when it is asked for receipts."""

    def __init__(self, keep: int = 1000) -> None:
        super().__init__()
        self.messages: deque[Message] = deque(maxlen=keep)

    def take(self, message: Message) -> None:
        self.messages.append(message)


def _examine(settings: MemorySettings, topics: Sequence[str]) -> Iterable[Finding]:
    return [Finding("sink", "warning", "the memory sink forgets everything when the process ends", KEEP)]


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
