"""Follows what writer and consumer note, and looks after the processes meanwhile."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from walrelay.lab.bench.latency.account import Account, Committed, Received
from walrelay.lab.bench.latency.journal import Journal
from walrelay.lab.bench.screen import Progress
from walrelay.lab.servers.backstage import Child

_INTERVAL = 0.02  # seconds between two looks


class Watch:
    """One for the whole run, so that a message that comes late is counted where it belongs."""

    def __init__(self, commits: Journal, receipts: Journal, offsets: Mapping[int, int], progress: Progress) -> None:
        """`offsets`: by partition, that of the first message that the consumer will get."""
        self._commits, self._receipts, self._progress = commits, receipts, progress
        self._offsets = dict(offsets)
        self._accounts: list[Account] = []
        self._children: list[Child] = []

    def open(self, expected: int) -> tuple[int, Account]:
        """A segment: its number and its account."""
        self._accounts.append(Account(expected))
        return len(self._accounts) - 1, self._accounts[-1]

    @contextmanager
    def over(self, child: Child) -> Iterator[None]:
        """While this is entered it is an error that the process ends."""
        self._children.append(child)
        try:
            yield
        finally:
            self._children.remove(child)

    def until(self, condition: Callable[[], bool], patience: float, progress: Callable[[], int] = lambda: 0) -> bool:
        """Whether it became true before `progress` stood still for so many seconds."""
        reached, since = progress(), time.monotonic()
        while not condition():
            if progress() != reached:
                reached, since = progress(), time.monotonic()
            elif time.monotonic() - since > patience:
                return False
            self.look_after(_INTERVAL)
        return True

    def look_after(self, seconds: float) -> None:
        time.sleep(seconds)
        for child in self._children:
            if not child.running:
                raise child.failure("ended")
        for line in self._commits.new():
            committed = Committed(*line)
            self._accounts[committed.segment].commit(committed)
        for line in self._receipts.new():
            received = Received(*line)
            self._offsets[received.partition] = received.offset + 1
            self._accounts[received.segment].receive(received)
        self._progress.refresh()

    def has_read(self, offsets: Mapping[int, int]) -> bool:
        """Whether the consumer has got everything before these."""
        return all(self._offsets[partition] >= offset for partition, offset in offsets.items())
