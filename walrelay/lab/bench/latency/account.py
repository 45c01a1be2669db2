"""What was committed in a segment against what arrived of it. No I/O."""

from typing import NamedTuple

from walrelay.lab.bench.results import Cost


class Committed(NamedTuple):
    """COMMIT returned, or would have if the writer had begun in time. Events of the warm-up have negative numbers."""

    segment: int
    number: int
    at_ns: int


class Received(NamedTuple):
    """The consumer got a message."""

    segment: int
    number: int
    partition: int
    offset: int
    at_ns: int


class Account:
    """Of one segment, whose events are numbered in the order of their commits. Either side may be heard of first."""

    def __init__(self, expected: int) -> None:
        self.expected = expected  # events that the writer will commit
        self.duplicates = self.out_of_order = 0
        self.warming = self.warm = 0  # events of the warm-up that were committed, that arrived
        self._committed: dict[int, int] = {}
        self._received: dict[int, int] = {}
        self._reached: dict[int, int] = {}  # by partition, the latest event that arrived

    def commit(self, event: Committed) -> None:
        if event.number < 0:
            self.warming += 1
        else:
            self._committed[event.number] = event.at_ns

    def receive(self, event: Received) -> None:
        """A repetition counts as that, not also as out of order."""
        if event.number in self._received:
            self.duplicates += 1
            return
        self._received[event.number] = event.at_ns
        self.warm += event.number < 0
        reached = self._reached.get(event.partition, event.number)
        self.out_of_order += event.number < reached
        self._reached[event.partition] = max(event.number, reached)

    @property
    def committed(self) -> int:
        return len(self._committed)

    @property
    def received(self) -> int:
        return len(self._received) - self.warm

    @property
    def written(self) -> bool:
        return self.committed >= self.expected

    @property
    def complete(self) -> bool:
        return self.written and self.received >= self.committed

    @property
    def lost(self) -> int:
        return len(self._committed.keys() - self._received.keys())

    @property
    def latencies_ms(self) -> list[float]:
        """In the order of the commits. What arrived before the writer knew that it was committed took no time."""
        pairs = ((at_ns, self._received.get(number)) for number, at_ns in self._committed.items())
        return [max(0, received - at_ns) / 1e6 for at_ns, received in pairs if received is not None]


class Measured(NamedTuple):
    """What came of a segment. `spent` is for its events alone; `idle_minute` None: not measured."""

    account: Account
    spent: Cost
    idle_minute: Cost | None
