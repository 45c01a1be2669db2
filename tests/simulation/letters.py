"""A table of dead letters that keeps what it was given, whatever happens to those who gave it; and a standby's copy."""

from collections.abc import Callable

from tests.simulation.fuse import Fuse, boundary
from walrelay.dead_letter import DeadLetter, Origin
from walrelay.dead_letters.identity import RecordKey, of_records
from walrelay.errors import Retryable
from walrelay.lsn import LSN


class FakeLetters:
    """In place of `DeadLetterTableWriter`; outlives runs and processes, and has no replay."""

    def __init__(self, fuse: Fuse) -> None:
        self.fuse = fuse
        self.kept: dict[Origin, DeadLetter] = {}
        self.standbys: dict[Origin, DeadLetter] = {}  # what the standby has of it
        self.hangs: Callable[[], bool] = lambda: False  # whether it gets nothing now

    @property
    def ids(self) -> list[str]:
        """Of the records, in the order of their positions."""
        return [origin.record_id for origin in sorted(self.kept)]

    @property
    def raw(self) -> list[bytes]:
        """What could not be read, in the order of the positions."""
        return [raw for origin in sorted(self.kept) if (raw := self.kept[origin].raw) is not None]

    def statuses(self) -> dict[str, str]:
        return {origin.record_id: self.kept[origin].status for origin in sorted(self.kept)}

    @boundary
    def write(self, letter: DeadLetter) -> None:
        self._write(letter)

    @boundary
    def write_blocked(self, letter: DeadLetter, behind: tuple[str, bytes] | None = None) -> bool:
        first = self.first_open(*(behind or (letter.topic or "", letter.key or b"")))
        if first is None or first >= letter.origin:
            return False
        self._write(letter)
        return True

    @boundary
    def await_standbys(self) -> None:
        """As `DeadLetterTableWriter` does it for a failover slot."""
        if self.hangs():
            raise Retryable("standby slot standby_1: its standby does not have the dead letters yet")
        self.standbys = dict(self.kept)

    def fail_over(self) -> None:
        """The standby's copy is all there is."""
        self.kept = dict(self.standbys)

    def first_open(self, topic: str, key: bytes) -> Origin | None:
        return self.blocked_keys().get((topic, key))

    def settled(self, start: LSN) -> dict[RecordKey, list[DeadLetter]]:
        return of_records(self.kept[origin] for origin in sorted(self.kept) if origin.commit_lsn >= start)

    def reconnect(self, catalog: object) -> None:
        pass

    def blocked_keys(self, *, begun: bool = False) -> dict[tuple[str, bytes], Origin]:
        first: dict[tuple[str, bytes], Origin] = {}
        for origin in sorted(self.kept):
            letter = self.kept[origin]
            first.setdefault((letter.topic or "", letter.key or b""), origin)
        blocked = {(letter.topic, letter.key) for letter in self.kept.values() if letter.status == "blocked"}
        return {key: origin for key, origin in first.items() if not begun or key in blocked}

    def _write(self, letter: DeadLetter) -> None:
        if before := self.kept.get(letter.origin):
            letter = before._replace(attempts=before.attempts + letter.attempts)
        self.kept[letter.origin] = letter
