"""An observer that remembers."""

from typing import TypeVar

from walrelay.lsn import LSN
from walrelay.observe import (
    Acknowledged,
    Behind,
    Confirmed,
    Happening,
    Noticed,
    Relayed,
    Retrying,
    Settled,
    Streaming,
    Turned,
    WaitedForRegistry,
    WaitedForRoom,
)

_PROGRESS = Acknowledged, Behind, Confirmed, Relayed, Settled, Turned, WaitedForRegistry, WaitedForRoom

T = TypeVar("T", bound=Happening)


class Seen:
    """What happened, but for progress."""

    def __init__(self) -> None:
        self.happenings: list[Happening] = []

    def saw(self, happening: Happening) -> None:
        if not isinstance(happening, _PROGRESS):
            self.happenings.append(happening)

    def of(self, kind: type[T]) -> list[T]:
        """Those of this kind, in order."""
        return [each for each in list(self.happenings) if isinstance(each, kind)]

    @property
    def notices(self) -> list[str]:
        return [notice.text for notice in self.of(Noticed)]

    @property
    def retries(self) -> list[str]:
        """Their causes."""
        return [retrying.cause for retrying in self.of(Retrying) if not retrying.again]

    @property
    def starts(self) -> list[LSN]:
        """Where the slot began to stream, each time."""
        return [streaming.start for streaming in self.of(Streaming)]
