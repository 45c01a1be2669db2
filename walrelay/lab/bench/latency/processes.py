"""The processes that are there all the time, the writer and the consumer: started, listened to and looked after."""

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

from walrelay.lab.bench.latency.account import Account, Committed, Received
from walrelay.lab.bench.names import TOPIC
from walrelay.lab.bench.screen import Progress
from walrelay.lab.servers.backstage import Backstage, Child


class Journal:
    """The reading end; the file is there from now on. A line is a JSON array."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch(mode=0o600)
        self._file = path.open("rb")
        self._begun = b""

    def new(self) -> list[list[Any]]:
        """What was appended since this was last asked, as far as lines are complete."""
        *lines, self._begun = (self._begun + self._file.read()).split(b"\n")
        return [json.loads(line) for line in lines]

    def close(self) -> None:
        self._file.close()


class Crew(NamedTuple):
    """`orders` takes the writer's; the journals are what either notes."""

    writer: Child
    orders: IO[str]
    commits: Journal
    consumer: Child
    receipts: Journal


def start(
    backstage: Backstage, stack: ExitStack, environment: Mapping[str, str], consumer_options: Mapping[str, Any]
) -> Crew:
    """Returns when the consumer will miss nothing. The stack ends them and closes the files."""
    commits, receipts = Journal(backstage.home / "commits"), Journal(backstage.home / "receipts")
    stack.callback(commits.close)
    stack.callback(receipts.close)
    fifo = backstage.home / "orders"
    os.mkfifo(fifo, 0o600)
    # For reading too, so that opening it does not wait for the writer.
    orders = stack.enter_context(os.fdopen(os.open(fifo, os.O_RDWR), "w"))
    arguments = [TOPIC, str(receipts.path), json.dumps(dict(consumer_options))]
    consumer = backstage.start("the consumer", _module("consumer", *arguments), environment=environment, output=True)
    writer = backstage.start("the writer", _module("writer", str(fifo), str(commits.path)), environment=environment)
    for child in (consumer, writer):  # before topic and tables are removed
        stack.callback(child.end, signal.SIGTERM)
    if not consumer.output.readline():
        raise consumer.failure("did not start")
    return Crew(writer, orders, commits, consumer, receipts)


def _module(name: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", f"walrelay.lab.bench.latency.{name}", *arguments]


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
