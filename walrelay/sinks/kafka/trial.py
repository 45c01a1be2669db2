"""A run's first transaction is tried: its messages go one by one, so that one that is refused is refused alone.

Whoever is started again after a record that was refused begins with that record's transaction. In a batch it would take
others with it, and what is behind it would be published to other partitions: again with each start of a supervisor.
"""

from collections.abc import Callable
from time import monotonic

_MOST = 100  # messages: a large transaction must not take long for that
_PATIENCE = 5.0  # seconds; a refusal comes sooner, but for that of a topic that is not there
_LOOK = 1.0  # seconds between two looks whether it is there


class Trial:
    """Of one run. `unknown`: whether the topic of the message that is under way is not there."""

    def __init__(self, unknown: Callable[[], bool]) -> None:
        self._unknown = unknown
        self._ticket: int | None = None
        self._count = 0
        self._asks_at: float | None = None  # when the one that is under way had better be settled
        self.over = False

    @property
    def waits(self) -> bool:
        """Whether a message is under way."""
        return self._asks_at is not None and not self.over

    def takes(self, ticket: int) -> bool:
        """Whether a message of that transaction may be taken now, if only because the trial is over."""
        if self._asks_at is None:
            self.over = self._count >= _MOST or self._ticket not in (None, ticket)
            return True
        if monotonic() < self._asks_at:
            return False
        self._asks_at = monotonic() + _LOOK
        self.over = not self._unknown()
        return self.over

    def took(self, ticket: int) -> None:
        """One was, and is under way."""
        self._ticket, self._asks_at = ticket, monotonic() + _PATIENCE
        self._count += 1

    def settled(self) -> None:
        """It has its receipt."""
        self._asks_at = None
