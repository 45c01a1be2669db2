"""A table of dead letters that keeps what it was given, whatever happens to those who gave it; and a standby's copy."""

from collections.abc import Callable

from tests.simulation.fuse import Fuse, boundary
from walrelay.dead_letter import Letter, Place
from walrelay.errors import Retryable
from walrelay.lsn import LSN


class FakeLetters:
    """In place of `walrelay.dead_letters.DeadLetters`; outlives runs and processes, and has no replay."""

    def __init__(self, fuse: Fuse) -> None:
        self.fuse = fuse
        self.kept: dict[Place, Letter] = {}
        self.standbys: dict[Place, Letter] = {}  # what the standby has of it
        self.hangs: Callable[[], bool] = lambda: False  # whether it gets nothing now

    @property
    def ids(self) -> list[str]:
        """Of the records, in the order of their positions."""
        return [place.record_id for place in sorted(self.kept)]

    @property
    def raw(self) -> list[bytes]:
        """What could not be read, in the order of the positions."""
        return [raw for place in sorted(self.kept) if (raw := self.kept[place].raw) is not None]

    def statuses(self) -> dict[str, str]:
        return {place.record_id: self.kept[place].status for place in sorted(self.kept)}

    @boundary
    def keep(self, letter: Letter) -> None:
        self._write(letter)

    @boundary
    def block(self, letter: Letter) -> bool:
        first = self.first_open(letter.topic or "", letter.key or b"")
        if first is None or first >= letter.place:
            return False
        self._write(letter)
        return True

    @boundary
    def survive(self) -> None:
        """As `DeadLetters` does it for a failover slot."""
        if self.hangs():
            raise Retryable("standby slot standby_1: its standby does not have the dead letters yet")
        self.standbys = dict(self.kept)

    def fail_over(self) -> None:
        """The standby's copy is all there is."""
        self.kept = dict(self.standbys)

    def first_open(self, topic: str, key: bytes) -> Place | None:
        return self.blocked_keys().get((topic, key))

    def settled(self, start: LSN) -> dict[Place, Letter]:
        return {place: letter for place, letter in self.kept.items() if place.commit_lsn >= start}

    def over(self, catalog: object) -> None:
        pass

    def blocked_keys(self) -> dict[tuple[str, bytes], Place]:
        first: dict[tuple[str, bytes], Place] = {}
        for place in sorted(self.kept):
            letter = self.kept[place]
            first.setdefault((letter.topic or "", letter.key or b""), place)
        return first

    def _write(self, letter: Letter) -> None:
        if before := self.kept.get(letter.place):
            letter = before._replace(attempts=before.attempts + letter.attempts)
        self.kept[letter.place] = letter
