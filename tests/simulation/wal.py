"""A write-ahead log as a script: what was committed, in commit order, at positions as awkward as PostgreSQL's.

Commit records stand back to back, so a transaction's end is the next one's commit position (guarantees A1), and all
rows of a transaction have one LSN, that of the moment it opened, which may lie far back (A2).
"""

from typing import NamedTuple

from walrelay.lsn import LSN

_RECORD = 0x38  # bytes of WAL that a commit record takes

PREFIX = "walrelay"


class Event(NamedTuple):
    """`a12` is the twelfth event of the aggregate `a`; `m` in front of it has it emitted as a logical message."""

    id: str

    @property
    def key(self) -> str:
        return self.id.rstrip("0123456789")

    @property
    def topic(self) -> str:
        return "early" if self.key < "c" else "late"

    @property
    def payload(self) -> bytes:
        return b'{"of":  "%s"}' % self.id.encode()


class Transaction(NamedTuple):
    """`foreign`: it wrote to another table of the publication as well, or only to that. `as_messages`: the ids of its
    events that are logical messages, the others are rows.
    """

    events: tuple[Event, ...]
    opened: LSN
    commit_lsn: LSN
    end_lsn: LSN
    foreign: bool = False
    as_messages: frozenset[str] = frozenset()


class Elsewhere(NamedTuple):
    """WAL that does not concern the slot: only keepalives tell that the server got past it."""

    end_lsn: LSN


class Loose(NamedTuple):
    """A non-transactional logical message with the outbox's prefix, sent although its transaction rolled back."""

    event: Event
    end_lsn: LSN


class Renamed(NamedTuple):
    """From here on the payload column of the outbox has another name; `end_lsn` as for all others."""

    column: str
    end_lsn: LSN


Entry = Transaction | Elsewhere | Loose | Renamed


class Wal:
    """Grows by the calls below; events are named in one string, as in `a1 a2 b1`."""

    def __init__(self) -> None:
        self.start = self.end = LSN(0x16_B374_D000)
        self.entries: list[Entry] = []

    @property
    def transactions(self) -> list[Transaction]:
        return [entry for entry in self.entries if isinstance(entry, Transaction)]

    @property
    def events(self) -> list[Event]:
        """All committed events in commit order."""
        return [event for transaction in self.transactions for event in transaction.events]

    def commit(
        self, events: str = "", *, opened: LSN | None = None, foreign: bool = False, as_messages: str | bool = False
    ) -> Transaction:
        """A transaction with these events, whose rows were written at `opened`; without any, of other tables only."""
        commit_lsn, end_lsn = self.end, self._grow(_RECORD)
        named = tuple(map(Event, events.split()))
        messages = frozenset((events if as_messages is True else as_messages or "").split())
        transaction = Transaction(named, opened or commit_lsn, commit_lsn, end_lsn, foreign or not named, messages)
        self.entries.append(transaction)
        return transaction

    def elsewhere(self, size: int = 0x2000) -> None:
        """Other databases and unpublished tables write `size` bytes."""
        self.entries.append(Elsewhere(self._grow(size)))

    def loose(self, event: str) -> None:
        """`pg_logical_emit_message(false, ...)` in a transaction that rolls back."""
        self.entries.append(Loose(Event(event), self._grow(_RECORD)))

    def rename(self, column: str) -> None:
        """ALTER TABLE outbox RENAME payload TO `column`."""
        self.entries.append(Renamed(column, self._grow(_RECORD)))

    def lose(self, end: LSN) -> None:
        """A crash of a server that did not write in time, or an older copy of it: what was behind `end` is gone."""
        self.entries = [entry for entry in self.entries if entry.end_lsn <= end]
        self.end = end

    def _grow(self, size: int) -> LSN:
        self.end = LSN(self.end + size)
        return self.end


def numbered(key: str, count: int, first: int = 1) -> str:
    """`count` events of one aggregate: `a1 a2 ...`."""
    return " ".join(f"{key}{number}" for number in range(first, first + count))
