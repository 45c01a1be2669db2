"""The processes of a comparison (workers of the strategies, writer, consumer): how each is started and watched."""

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

from walrelay import config
from walrelay.config import Settings
from walrelay.lab.bench.account import CommittedEvent, LatencyAccount, Received
from walrelay.lab.bench.child import POSITIONS, PUBLICATION, SLOT, TABLE, TOPIC
from walrelay.lab.bench.screen import SegmentProgress
from walrelay.lab.servers.backstage import Backstage, Child, free_port

RELAY, EXACTLY_ONCE, DIRECT = "walrelay", "exactly-once", "direct"


class Way(NamedTuple):
    """How a strategy gets events from the outbox to the broker."""

    name: str
    polling: Sequence[str] = ()  # arguments of walrelay.lab.bench.polling; none: the relay, or `direct`
    interval: float = 0.0  # seconds: one at least must be measured
    longest_pause: float = 0.0  # seconds in which it may be silent although events wait
    listens: bool = False
    exactly_once: bool = False
    direct: bool = False  # the writer produces, and there is no worker
    asked: int = 0  # requests a second at the admin API, which runs beside the relay

    def command(self, settings: Path) -> list[str]:
        """To be run with DATABASE_URL and KAFKA_BOOTSTRAP_SERVERS in the environment."""
        if self.polling:
            return [sys.executable, "-m", "walrelay.lab.bench.polling", TABLE, TOPIC, *self.polling]
        chosen = _exactly_once(settings) if self.exactly_once else settings
        # The benchmark moves the slot between two rounds, and a relay refuses a slot that something else moved.
        return [sys.executable, "-m", "walrelay", "run", "--config", str(chosen), "--from-slot"]


def _every(name: str, seconds: float) -> Way:
    return Way(name, ["--every", str(seconds)], seconds, seconds)


_WAYS = (
    Way(RELAY),
    Way(EXACTLY_ONCE, exactly_once=True),
    Way(DIRECT, direct=True),
    _every("polling-5s", 5),
    _every("polling-1s", 1),
    _every("polling-100ms", 0.1),
    _every("polling-10ms", 0.01),
    Way("polling-backoff", ["--back-off"], 1, 60),
    Way("polling-notify", ["--listen", "--every", "5"], 0, 5, listens=True),
    Way("walrelay-admin", asked=100),
)
WAYS: Mapping[str, Way] = {way.name: way for way in _WAYS}

# The settings as a user would write them; the rest is walrelay's defaults.
_SETTINGS: Mapping[str, Any] = {
    "source": {"dsn": "${DATABASE_URL}", "slot": SLOT, "publication": PUBLICATION},
    "outbox": {"table": TABLE},
    "route": {"topic": "walrelay.bench.{aggregate_type}"},
    "sink": {
        "kind": "kafka",
        "bootstrap_servers": "${KAFKA_BOOTSTRAP_SERVERS}",
        "positions_topic": POSITIONS,
    },
    "log": {"format": "json"},
}


def write_settings(path: Path) -> None:
    """The relay's settings file; JSON is YAML too."""
    path.write_text(json.dumps(_SETTINGS))
    _exactly_once(path).write_text(json.dumps({**_SETTINGS, "delivery": "exactly_once"}))


_AFTER_OTHERS = ("nice", "-n", "10")


def start_asking(
    backstage: Backstage, settings: Path, environment: Mapping[str, str], rate: int
) -> tuple[Child, Child]:
    """The admin API, and who asks it; both are at work. On a core of the relay's they come after it, as the unit in
    deploy/ says.
    """
    port, own = free_port(), settings.with_name("admin.yaml")
    section = {"listen": f"127.0.0.1:{port}", "requests_per_second": 10 * rate}
    own.write_text(json.dumps({**_SETTINGS, "admin": section}))
    command = [*_AFTER_OTHERS, sys.executable, "-m", "walrelay", "admin", "--config", str(own)]
    api = backstage.start("the admin API", command, environment=environment)
    asking = [*_AFTER_OTHERS, sys.executable, "-m", "walrelay.lab.bench.asking", str(port), SLOT, str(rate)]
    asks = backstage.start("who asks the admin API", asking, environment=environment, output=True)
    if not asks.output.readline():
        raise (asks if api.running else api).failure("did not start")
    return api, asks


def _exactly_once(settings: Path) -> Path:
    """The settings file beside it, for the relay that publishes exactly once."""
    return settings.with_name("exactly_once.yaml")


def relay_settings(environment: Mapping[str, str]) -> Settings:
    return config.parse(json.dumps(_SETTINGS), "walrelay.yaml", environment)


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


class Ends(NamedTuple):
    """`assignments` takes the writer's; the journals are what either notes."""

    writer: Child
    assignments: IO[str]
    commits: Journal
    consumer: Child
    receipts: Journal


def start_ends(
    backstage: Backstage, stack: ExitStack, environment: Mapping[str, str], consumer_options: Mapping[str, Any]
) -> Ends:
    """Returns when the consumer will miss nothing. The stack ends them and closes the files."""
    commits, receipts = Journal(backstage.home / "commits"), Journal(backstage.home / "receipts")
    stack.callback(commits.close)
    stack.callback(receipts.close)
    fifo = backstage.home / "assignments"
    os.mkfifo(fifo, 0o600)
    # For reading too, so that opening it does not wait for the writer.
    assignments = stack.enter_context(os.fdopen(os.open(fifo, os.O_RDWR), "w"))
    arguments = [TOPIC, str(receipts.path), json.dumps(dict(consumer_options))]
    consumer = backstage.start("the consumer", _end("consumer", *arguments), environment=environment, output=True)
    writer = backstage.start("the writer", _end("writer", str(fifo), str(commits.path)), environment=environment)
    for child in (consumer, writer):  # before topic and tables are removed
        stack.callback(child.end, signal.SIGTERM)
    if not consumer.output.readline():
        raise consumer.failure("did not start")
    return Ends(writer, assignments, commits, consumer, receipts)


def _end(which: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "walrelay.lab.bench.ends", which, *arguments]


_INTERVAL = 0.02  # seconds between two looks


class Overseer:
    """One for the whole run, so that a message that comes late is counted where it belongs."""

    def __init__(
        self, commits: Journal, receipts: Journal, offsets: Mapping[int, int], progress: SegmentProgress
    ) -> None:
        """`offsets`: by partition, that of the first message that the consumer will get."""
        self._commits, self._receipts, self._progress = commits, receipts, progress
        self._offsets = dict(offsets)
        self._accounts: list[LatencyAccount] = []
        self._children: list[Child] = []

    def open(self, expected: int) -> tuple[int, LatencyAccount]:
        """A segment: its number and its account."""
        self._accounts.append(LatencyAccount(expected))
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
            committed = CommittedEvent(*line)
            self._accounts[committed.segment].commit(committed)
        for line in self._receipts.new():
            received = Received(*line)
            self._offsets[received.partition] = received.offset + 1
            self._accounts[received.segment].receive(received)
        self._progress.refresh()

    def has_read(self, offsets: Mapping[int, int]) -> bool:
        """Whether the consumer has got everything before these."""
        return all(self._offsets[partition] >= offset for partition, offset in offsets.items())
