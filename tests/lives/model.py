"""Model of what must be, from committed rows and settings alone. It knows nothing of the product's code.

A row is published under settings that were in force at some time from its commit until it was confirmed: which, a kill
may leave open. So one of these versions explains all that became of it.
"""

from collections import defaultdict
from dataclasses import dataclass, field

from tests.lives.life import Row, Rules
from tests.lives.receiver import Stored

Destination = tuple[str, str]
OPEN = ("waiting", "blocked")


@dataclass
class Written:
    """A committed row. `n`: its number; numbers rise in the order of commits. `first`, `last`: the versions of settings
    under which it may have been published, by their place in the history; `last` None: not known to be confirmed.
    """

    n: int
    row: Row
    lsn: int
    first: int
    last: int | None = None


@dataclass
class Letter:
    """A dead letter, as the table has it."""

    n: int
    destination: Destination | None
    status: str


@dataclass
class Model:
    """The history so far. `repeats`: whether something happened that may repeat messages."""

    history: list[Rules] = field(default_factory=list)
    rows: dict[int, Written] = field(default_factory=dict)
    repeats: str = ""
    replayed: bool = False

    def comes_in_force(self, rules: Rules, confirmed: int) -> None:
        """Other settings, after a life that confirmed up to there."""
        self.confirmed(confirmed)
        self.history.append(rules)

    def committed(self, n: int, row: Row, lsn: int) -> None:
        if row.poison:
            self.excused("a refusal")  # it ends the sink, and others that were under way are sent again
        self.rows[n] = Written(n, row, lsn, max(0, len(self.history) - 1))

    def confirmed(self, lsn: int) -> None:
        """No row that was committed before that is published later."""
        for written in self.rows.values():
            if written.last is None and written.lsn <= lsn:
                written.last = len(self.history) - 1

    def excused(self, why: str) -> None:
        self.repeats = self.repeats or why

    def versions(self, written: Written) -> list[Rules]:
        last = len(self.history) - 1 if written.last is None else written.last
        return self.history[written.first : last + 1]

    def due(self, written: Written) -> set[Destination]:
        """Where it may be."""
        found = {each for rules in self.versions(written) for each in rules.destinations(written.row)}
        return found | (set(self.history[-1].destinations(written.row)) if self.replayed else set())

    def faults(self, journal: list[Stored], letters: list[Letter], *, settled: bool) -> list[str]:
        """Faults found. `settled`: all was confirmed, no fault lasts, and open dead letters were replayed."""
        found: list[str] = []
        arrived: dict[int, set[Destination]] = defaultdict(set)
        places: dict[Destination, list[Stored]] = defaultdict(list)
        for each in journal:
            arrived[each.n].add((each.sink, each.topic))
            places[each.sink, each.topic].append(each)
        kept = {letter.n for letter in letters}
        for n in arrived.keys() - self.rows.keys():
            found.append(f"row {n} was published and never committed")
        for written in self.rows.values():
            if strays := arrived[written.n] - self.due(written):
                found.append(f"row {written.n} is in {sorted(strays)}, where no settings since its commit send it")
            if settled or written.last is not None:
                found += self._missing(written, arrived[written.n], letters, settled=settled)
        for place, stored in places.items():
            found += self._disorder(place, stored, kept)
        if not self.repeats and not self.replayed:
            found += _repetitions(journal)
        return found

    def lost(self, numbers: set[int], journal: list[Stored], letters: list[Letter]) -> list[str]:
        """Of these rows those that are neither published nor dead letters."""
        found = []
        for written in (self.rows[n] for n in sorted(numbers)):
            arrived = {(each.sink, each.topic) for each in journal if each.n == written.n}
            found += self._missing(written, arrived, letters, settled=False)
        return found

    def _missing(self, written: Written, arrived: set[Destination], every: list[Letter], *, settled: bool) -> list[str]:
        """A dead letter accounts for its destination; once all is settled, only one that was given up does."""
        given_up, letters = {"discarded", "skipped"}, [each for each in every if each.n == written.n]
        missing = []
        for rules in self.versions(written):
            left = rules.destinations(written.row) - arrived
            for letter in letters:
                if letter.status in given_up or not settled or self._cannot_go(letter, every):
                    left -= {letter.destination} if letter.destination else left
            if not left:
                return []
            missing.append(sorted(left))
        return [f"row {written.n} is missing in {' or '.join(map(str, missing))}; dead letters: {letters}"]

    def _cannot_go(self, letter: Letter, every: list[Letter]) -> bool:
        """Whether no replay publishes it: today's rules do not send it there, or keep it behind one of which that is
        true.
        """
        today, row = self.history[-1], self.rows[letter.n].row
        if letter.destination not in today.destinations(row):
            return True
        return today.block_key and any(
            other.n < letter.n
            and other.destination == letter.destination
            and self.rows[other.n].row.key == row.key
            and other.status in OPEN
            and other.destination not in today.destinations(self.rows[other.n].row)
            for other in every
        )

    def _disorder(self, place: Destination, stored: list[Stored], letters: set[int]) -> list[str]:
        """The first messages of a key come in the order of commits. What was a dead letter comes late, unless later
        messages of its key waited for it in every life.
        """
        blocks = bool(self.history) and all(rules.block_key and rules.policy == "dead_letter" for rules in self.history)
        found, highest, seen = list[str](), dict[str, int](), set[int]()
        for each in stored:
            late = (each.replayed and (self.replayed or not blocks)) or (each.n in letters and not blocks)
            if each.n in seen or late or each.n not in self.rows:
                continue
            written = self.rows[each.n]
            if any(place not in rules.destinations(written.row) for rules in self.versions(written)):
                continue  # dropped by earlier rules, and read once more under these: after what those published
            seen.add(each.n)
            if each.n < highest.get(each.key, -1):
                found.append(f"row {each.n} came to {place} after row {highest[each.key]} of its key {each.key}")
            highest[each.key] = max(each.n, highest.get(each.key, -1))
        return found


def _repetitions(journal: list[Stored]) -> list[str]:
    seen, found = set[tuple[str, str, int]](), []
    for each in journal:
        if (each.sink, each.topic, each.n) in seen:
            found.append(f"row {each.n} came to {(each.sink, each.topic)} again, and nothing had happened")
        seen.add((each.sink, each.topic, each.n))
    return found
