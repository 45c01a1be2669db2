"""What the relay asks of a source: a replication slot as a stream of frames."""

from collections.abc import Callable
from typing import Protocol

from walrelay.lsn import LSN
from walrelay.model import LatestCommit, RelayPosition


class Source(Protocol):
    """One replication connection that streams; after any error it is closed and never used again."""

    start: LSN
    """Where this connection's stream begins: the end of what was confirmed before."""

    latest: LatestCommit | None
    """What the relay has read; goes with the positions that the source keeps."""

    def read(self, timeout: float) -> list[bytes]:
        """All frames that are ready; waits up to `timeout` seconds for the first. Retryable when the stream ended."""
        ...

    def wake_by(self, descriptor: int | None) -> None:
        """From now on a `read` ends early whenever that is readable: its sink has something to do."""
        ...

    def confirm(self, lsn: LSN) -> bool:
        """Tells the server that everything before `lsn` is durable, if a status update is due: by progress, by the
        server's request or by time. To be called at every turn, reading or not. True if the update moved the position.
        """
        ...

    def vouch(self, lsn: LSN) -> LSN:
        """How far up to `lsn` the outbox is known to have been published all along, so that a stream without records
        means that there were none (guarantees A19). Fatal when the table left the publication.
        """
        ...

    def report_waiting(self, since: int | None) -> None:
        """Publishes what waits for the broker, for `walrelay status`; to be called at every turn. `since`: when the
        oldest event that has waited for long was committed, in microseconds since 1970 by the server's clock; None if
        none has.
        """
        ...

    def leave(self, lsn: LSN, *, settled: bool = False) -> None:
        """Confirms `lsn` and ends the stream in good order, within a few seconds. `settled`: the relay stops, and all
        that was read is before `lsn`.
        """
        ...

    def pause(self, lsn: LSN, stop: Callable[[], bool]) -> None:
        """The same, and keeps the connection, with its lead. Disconnected if `stop` is true before that is done."""
        ...


class Positions(Protocol):
    """Where a relay keeps a position of its own; it survives the process and a crash of PostgreSQL."""

    def fence(self) -> bool:
        """Makes sure that nobody who wrote there before can do so any more; to be called, before anything else, until
        it is true. Waits for a second at most.
        """
        ...

    def trouble(self) -> str:
        """Why that takes so long; empty where nobody knows."""
        ...

    def last(self) -> RelayPosition | None:
        """The position that was kept last; None if there never was one. Retryable if that cannot be found out."""
        ...

    def keep(self, position: RelayPosition) -> LSN:
        """Makes `position` durable if that can be done within a second; returns the LSN up to which positions are
        durable by now. NotKept where there is no space for it.
        """
        ...
