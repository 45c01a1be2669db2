"""Reads topics back for some events, and no longer than somebody waits for that."""

from collections.abc import Generator, Mapping, Sequence
from threading import Event, Thread
from time import monotonic
from typing import NamedTuple

from walrelay.errors import WalrelayError
from walrelay.publish import Found, ReadBack

_LOOK = 0.02  # seconds between two looks at how far the readers are
_LINGER = 1.0  # seconds for a repetition, once each has its copies


class TopicsRead(NamedTuple):
    """What was found in the topics of a sink. `done`: they were read to their ends. `messages`: how many of walrelay's.
    `upto_ms`: the time up to which all partitions were read; None: nothing was. `failed`: why it could not go on.
    """

    found: Sequence[Found]
    done: bool
    messages: int
    upto_ms: int | None
    failed: str


class _Reader(Thread):
    """Reads the topics of one sink. Its client library may wait for long, so nobody waits for this thread."""

    def __init__(self, read: ReadBack, topics: Sequence[str], since_ms: int, wanted: frozenset[str]) -> None:
        super().__init__(name="walrelay find", daemon=True)
        self._read, self._topics, self._since, self._wanted = read, topics, since_ms, wanted
        self._messages, self._over = 0, Event()
        self._reached: dict[tuple[str, int], int] = {}
        self._failed: Exception | None = None
        self.found: list[Found] = []
        self.done = False

    def run(self) -> None:
        try:
            reading = self._read(self._topics, self._since)
            try:
                for each in reading:
                    if self._over.is_set():
                        return
                    if isinstance(each, Found):
                        self._take(each)
                    else:
                        self._reached.pop((each.topic, each.partition), None)
            finally:
                if isinstance(reading, Generator):
                    reading.close()  # and its connection, in this thread
            self.done = True
        except Exception as error:  # whatever it is, the thread that waits tells it
            self._failed = error

    def _take(self, found: Found) -> None:
        self._messages += 1
        self._reached[found.topic, found.partition] = found.timestamp_ms
        if found.id in self._wanted:
            self.found.append(found)

    def end(self) -> TopicsRead:
        """What it has until now; it stops at the next message."""
        self._over.set()
        found, reached, failed = [*self.found], [*self._reached.copy().values()], self._failed
        if failed is not None and not isinstance(failed, WalrelayError):
            raise failed
        return TopicsRead(found, self.done, self._messages, min(reached, default=None), str(failed or ""))


def read_topics(
    readers: Mapping[str, ReadBack],
    topics: Mapping[str, Sequence[str]],
    since_ms: int,
    wanted: frozenset[str],
    due: Mapping[str, Sequence[str]],
    seconds: float,
) -> dict[str, TopicsRead]:
    """By sink, what is `wanted` by its id. Ends when all that is `due` was found: id -> topics; none: any."""
    reading = {sink: _Reader(readers[sink], names, since_ms, wanted) for sink, names in topics.items()}
    for each in reading.values():
        each.start()
    deadline, lingering = monotonic() + seconds, False
    while (alive := [each for each in reading.values() if each.is_alive()]) and monotonic() < deadline:
        alive[0].join(_LOOK)
        if not lingering and due and _all_found(due, [found for each in reading.values() for found in each.found[:]]):
            deadline, lingering = min(deadline, monotonic() + _LINGER), True
    return {sink: each.end() for sink, each in reading.items()}


def _all_found(due: Mapping[str, Sequence[str]], found: Sequence[Found]) -> bool:
    there = {(each.id, each.topic) for each in found} | {(each.id, "") for each in found}
    return all((id_, topic) in there for id_, topics in due.items() for topic in (topics or ("",)))
