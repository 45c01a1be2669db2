"""The contract between a sink that writes groups and the store that holds them."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from walrelay.errors import Retryable
from walrelay.model import Message, RelayPosition
from walrelay.sinks.hosting.sink import Misfit, RefusalMemory

_LARGER_AFTER = 10  # groups


class Culprit(NamedTuple):
    """The message of a group that was refused, by its number there; the words are those of a Refusal."""

    number: int
    reason: str
    hint: str
    error: str = "refused"
    scope: str = "message"


class GroupTooLarge(Retryable):
    """The store did not write a group in time, or had no room for it. It has smaller limits for the next ones."""


class PartlyWritten(Retryable):
    """The store takes no more of a group now, and took a part of it since the group was begun."""


class GroupMemory(RefusalMemory):
    """Memory of the sinks of one relay about the size that a group may have."""

    most: int | None = None  # messages, where the store took no more
    _written = 0  # groups in a row

    def too_many(self, messages: int) -> bool:
        """A group of so many took too long, or there was no room for it: the next ones are smaller, if they can be."""
        smaller = messages > 1 and self.most != 1
        self._written = 0
        if messages > 1:
            self.most = max(1, messages // 4)
        return smaller

    def written(self, messages: int) -> None:
        """A group of so many was written in good time. Several in a row, and the next ones are larger."""
        if self.most is not None and messages >= self.most:
            self._written += 1
            if self._written >= _LARGER_AFTER:
                self.most, self._written = 2 * self.most, 0

    def at_most(self, messages: int) -> int:
        """The limit, where `messages` is that of the settings."""
        return min(messages, self.most or messages)


class GroupStore(Protocol):
    """Store that holds groups. One is written at a time.

    `fence`, `begin` and `step` raise Retryable where the connection broke or the store takes nothing now. Whether the
    group that was being written is there is not known then; `fence` is called next, after a delay in which `step` runs
    the client. Superseded and Fatal end the sink.
    """

    def fence(self, timeout: float) -> bool:
        """Connects, and makes sure that nothing that was sent before can still be written; see `ExactlyOnceSink.fence`.
        Waits for `timeout` seconds at most; `begin` comes after it. The first fence takes the slot from every other
        store. A later one of the same store keeps it: Superseded where another store took the slot meanwhile, as far as
        that can be known.
        """
        ...

    def last(self) -> RelayPosition | None:
        """The position of the last group that was written; known since the fence."""
        ...

    def misfit(self, message: Message) -> Misfit | None:
        """Why it could not hold this message unaltered."""
        ...

    def begin(self, messages: Sequence[Message], position: RelayPosition) -> None:
        """Begins to write a group. A group of no messages is a position."""
        ...

    def step(self, timeout: float) -> bool | Culprit:
        """Goes on, for `timeout` seconds at most: whether the group is durable, or what was refused; then nothing of
        the group is durable. False where no group is being written.
        """
        ...

    def descriptor(self) -> int | None:
        """See `Sink.descriptor`."""
        ...

    def trouble(self) -> str:
        """See `Sink.trouble`."""
        ...

    def close(self) -> None:
        """See `Sink.close`."""
        ...


class GroupLimit(Protocol):
    """Limit of a group, unless a single record has more; asked again for each."""

    @property
    def messages(self) -> int: ...

    @property
    def bytes(self) -> int: ...


class GroupSize(NamedTuple):
    """A limit that stays."""

    messages: int
    bytes: int
