"""What the relay tells whoever watches: an Observer with methods that do nothing, to override at will."""

from collections.abc import Callable, Sequence
from time import monotonic

from walrelay.dead_letter import DeadLetter
from walrelay.lsn import LSN


class Observer:
    """Called from the relay's thread, at most a few times per turn of the loop and, but for `set_aside`, never per
    message.

    An implementation must return soon and must not raise. Positions are LSNs, times are seconds.
    """

    def standing_by(self, slot: str) -> None:
        """Another instance leads; this one waits until it does not any more."""

    def streaming(self, slot: str, start: LSN, plugin: str) -> None:
        """A run began: the slot streams from `start`."""

    def read(self, records: int, messages: int) -> None:
        """`records` were decoded and `messages` handed to the sink since the last call."""

    def confirmed(self, lsn: LSN, unsettled: int) -> None:
        """`lsn` was told to PostgreSQL as durable; `unsettled` messages wait for their receipt."""

    def stalled(self, seconds: float, unsettled: int, why: str) -> None:
        """The sink has had no room, or given no receipt, for `seconds`; called again while it lasts."""

    def resumed(self, seconds: float) -> None:
        """A stall of `seconds` is over."""

    def skipped(self, lsn: LSN, why: str) -> None:
        """Something at `lsn` was passed over because the settings say so."""

    def set_aside(self, letter: DeadLetter) -> None:
        """A message was refused, or a record not routed or read, and is a dead letter now; called for each of them."""

    def noticed(self, text: str) -> None:
        """The server or a sink said something that needs no action by the relay."""

    def retrying(self, cause: str, attempt: int, pause: float, lasting: bool) -> None:
        """The run ended in something retryable; the next one begins in `pause` seconds. `lasting`: several did in a
        row, so that somebody should look.
        """

    def backfilling(self, rows: int, already: int) -> None:
        """`rows` of the table are to be published; `already` were before, by a backfill that was interrupted."""

    def backfilled(self, rows: int) -> None:
        """So many more rows of the table are durable."""

    def cleaned(self, rows: int, dropped: Sequence[str], made: Sequence[str], seconds: float) -> None:
        """A pass of the leader's clean-up: so many rows went, those of the `dropped` partitions too; days were `made`.
        Called from another thread than the relay's.
        """

    def not_cleaned(self, why: str) -> None:
        """The leader's clean-up could not do something, and tries again later. From another thread as well."""

    def stopping(self, unsettled: int, seconds: float) -> None:
        """A stop was asked for; `unsettled` messages are still to be settled, which may take so long."""

    def stopped(self, confirmed: LSN, unsettled: int) -> None:
        """The relay left in good order."""


class StallWatch:
    """Makes "nothing was settled" a thing that is said: a silent stall behind a green check is the worst failure.

    What counts is the oldest transaction: receipts for later ones do not free any WAL while it is stuck.
    """

    def __init__(self, observer: Observer, trouble: Callable[[], str], *, patience: float = 5.0) -> None:
        self._observer = observer
        self._trouble = trouble
        self._patience = patience
        self._progress = 0
        self._moved = monotonic()  # when the oldest transaction last got a receipt, or nothing waited for one
        self._said = 0.0

    def saw(self, unsettled: int, progress: int) -> None:
        """To be called at each turn: `unsettled` messages wait, `progress` counts the oldest one's receipts."""
        now = monotonic()
        if progress != self._progress or unsettled == 0:
            if self._said:
                self._observer.resumed(now - self._moved)
            self._progress, self._moved, self._said = progress, now, 0.0
        elif now - max(self._moved, self._said) > self._patience * (2 if self._said else 1):
            self._said = now
            self._observer.stalled(now - self._moved, unsettled, self._trouble())
