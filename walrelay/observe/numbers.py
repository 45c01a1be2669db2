"""What happens to a relay, counted: the numbers behind metrics and health.

The relay's thread writes them and others read them at any time, without a lock: each is one value, replaced whole.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from time import monotonic, time
from typing import Literal, NamedTuple

from walrelay.lsn import LSN, ZERO
from walrelay.model import Skipped
from walrelay.observe import (
    Acknowledged,
    Backfilled,
    Behind,
    CleanedUp,
    Confirmed,
    DeadLettered,
    Dropped,
    EndedFatally,
    GivingUp,
    Happening,
    Leads,
    NotCleanedUp,
    NotMarked,
    Paused,
    PauseOver,
    Relayed,
    Resumed,
    Retrying,
    Settled,
    Stalled,
    StandingBy,
    Stopped,
    Stopping,
    Streaming,
    TakingOver,
    Turned,
    WaitedForRegistry,
    WaitedForRoom,
)
from walrelay.observe.processes import NotStarted
from walrelay.observe.sent import Sent, SentByTopic

State = Literal[
    "starting", "standing by", "streaming", "waiting", "paused", "retrying", "stopping", "stopped", "failed"
]
"""waiting: it streams, and a sink takes or acknowledges nothing."""

_STREAMING = "streaming", "waiting"
SECONDS = 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0
OTHER_ERRORS = "(other)"
_ERRORS = 100  # kinds that are counted apart: a sink of another package names them itself
SIZES = 1, 10, 100, 1_000, 10_000, 100_000, 1_000_000


class Distribution:
    """How many values were at most each bound, and above the last one; and their sum."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds, self.counts, self.sum = tuple(bounds), [0] * (len(bounds) + 1), 0.0

    def add(self, value: float, times: int = 1) -> None:
        self.counts[bisect_left(self.bounds, value)] += times
        self.sum += value * times


class LastError(NamedTuple):
    """An error: its text, its class, and when (Unix time)."""

    text: str
    error: str
    at: float


class Hindrance(NamedTuple):
    """The side that keeps the relay from going on, and since when. `moved_at`: the relay's last progress. By
    `monotonic`.
    """

    by: Literal["sink", "registry"]
    since: float
    why: str
    moved_at: float
    hint: str = ""


class RelayNumbers:
    """An observer of one relay, for as long as the process runs. Times are `monotonic`, where nothing else is said."""

    def __init__(self, slot: str, *, several_sinks: bool = False, topics: int = 100, exact: bool = True) -> None:
        """`topics`: how many have numbers of their own. Not `exact`: what topics were sent may be estimated, and
        neither latencies nor the sizes of transactions are counted.
        """
        self.slot, self._exact, self._sent = slot, exact, SentByTopic(several_sinks, topics, exact=exact)
        self.began_at = time()
        self.state: State = "starting"
        self._led = False
        self._streamed = False  # in this state, or before it began to stop
        self.state_since = self.turned_at = self.settled_at = self.read_at = monotonic()
        self.records = self.messages = self.published = self.in_flight = 0
        self.confirmed: LSN = ZERO
        self.latency, self.round_trip, self.sizes = Distribution(SECONDS), Distribution(SECONDS), Distribution(SIZES)
        self.behind_since: float | None = None  # Unix time, by the server's clock
        self.stalled: Hindrance | None = None  # the oldest transaction has no receipt, or a sink is in trouble
        self.held_up: Hindrance | None = None  # a record waits for the sink's room, or for a registry
        self.back_pressure = self.registry_wait = 0.0  # seconds
        self.retries, self.fatal, self.drops = Counter[str](), Counter[str](), Counter[str]()
        self.dead_letters = Counter[tuple[str, str]]()
        self.batches = self.partitions_dropped = 0
        self.streams = self.skipped = self.rows_deleted = self.clean_ups = self.clean_up_failures = 0
        self.cleaned_at: float | None = None  # Unix time
        self.mark_failures = self.rows_backfilled = 0
        self.last_error: LastError | None = None
        self.hint = ""  # what to do about it
        self.untold = Counter[str]()  # what no collector got, by signal; written by whoever sends it
        self.pause = ""  # who paused the relay, why, and what it costs
        self.paused_at: float | None = None  # Unix time, by the server's clock; it outlives processes

    @property
    def sent(self) -> Mapping[tuple[str, str], Sent]:
        """By sink and topic."""
        return self._sent.by_topic

    @property
    def leads(self) -> bool:
        return self._led or self.state in _STREAMING or (self.state == "stopping" and self._streamed)

    @property
    def hindrance(self) -> Hindrance | None:
        """What the relay waits for, if it does."""
        return self.stalled or self.held_up

    def saw(self, happening: Happening) -> None:
        kind = type(happening)
        if kind is Relayed:  # these happen in every turn, so no patterns are tried for them
            self._relayed(happening)  # type: ignore[arg-type]
        elif kind is Acknowledged:
            self._acknowledged(*happening)
        elif kind is Settled:
            self._settled(*happening)
        elif kind is Turned:
            self.turned_at = monotonic()
            self._sent.settle()
        else:
            self._seldom(happening)

    def _relayed(self, turn: Relayed) -> None:
        records, messages, taken, sizes, self.in_flight, _, _ = turn
        self.turned_at = self.read_at = now = monotonic()
        self.held_up = None
        self.records += records
        self.messages += messages
        if taken:
            self.batches += 1
            self._sent.count(taken, now)
        if sizes and self._exact:
            self._count_sizes(sizes)

    def _count_sizes(self, sizes: Sequence[int]) -> None:
        """In a backlog transactions are often alike."""
        if sizes.count(sizes[0]) == len(sizes):
            self.sizes.add(sizes[0], len(sizes))
            return
        for rows, times in Counter(sizes).items():
            self.sizes.add(rows, times)

    def _acknowledged(self, messages: int, unsettled: int) -> None:
        self.published += messages
        self.in_flight = unsettled
        if self.held_up is not None and self.held_up.by == "sink":
            self.held_up = None

    def _settled(self, since_commit: float, since_read: float, _: LSN) -> None:
        self.settled_at = monotonic()
        if self._exact:
            self.latency.add(since_commit)
            self.round_trip.add(since_read)

    def _seldom(self, happening: Happening) -> None:
        match happening:
            case Confirmed(lsn, unsettled):
                self.settled_at = self.turned_at = monotonic()
                self.confirmed, self.in_flight = lsn, unsettled
            case Behind(since):
                self.behind_since = None if since is None else since / 1e6
            case WaitedForRoom(seconds):
                self.back_pressure += seconds
                self._waits("sink", seconds, "it has no room")
            case WaitedForRegistry(seconds, why, hint):
                self.registry_wait += seconds
                self._waits("registry", seconds, why, hint)
            case Stalled(seconds, _, why, away):
                self.turned_at = now = monotonic()
                why = why or "nothing was acknowledged"
                self.stalled = Hindrance("sink", now - max(seconds, away), why, now - seconds)
                if self.state == "streaming":
                    self._enter("waiting")
            case Resumed():
                self.stalled = None
                if self.state == "waiting":
                    self._enter("streaming")
            case DeadLettered(letter):
                known = len(self.dead_letters) < _ERRORS or (letter.status, letter.error) in self.dead_letters
                self.dead_letters[letter.status, letter.error if known else OTHER_ERRORS] += 1
            case Dropped(rule):
                self.drops[rule] += 1
            case Skipped():
                self.skipped += 1
            case Retrying(cause, _, _, _, error):
                self.retries[error] += 1
                self._troubled(cause, error)
                self._enter("retrying")
            case CleanedUp(rows, dropped):
                self.rows_deleted += rows
                self.partitions_dropped += len(dropped)
                self.clean_ups += 1
                self.cleaned_at = time()
            case NotCleanedUp():
                self.clean_up_failures += 1
            case NotMarked():
                self.mark_failures += 1
            case Backfilled(rows):
                self.rows_backfilled += rows
            case EndedFatally() if self.state == "failed":
                pass  # it is told again and again
            case EndedFatally(error):
                self.fatal[type(error).__name__] += 1
                self._troubled(str(error), type(error).__name__, error.hint)
                self._enter("failed")
            case NotStarted(cause):
                self.retries["NotStarted"] += 1
                self._troubled(cause, "NotStarted")
                self._enter("retrying")
            case _:
                self._moved(happening)

    def _moved(self, happening: Happening) -> None:
        match happening:
            case Streaming():
                self.streams += 1
                self.turned_at = self.settled_at = self.read_at = monotonic()
                self.behind_since = None
                self._enter("waiting" if self.stalled else "streaming")
            case Leads(leads):
                self._led = leads
            case StandingBy():
                self._enter("standing by")
            case TakingOver():
                self._enter("starting")
            case Paused(_, why, cost, since):
                self.pause = f"paused {why}; {cost}"
                self._enter("paused")
                self.paused_at = since
            case PauseOver():
                self._enter("starting")
            case Stopping() | GivingUp():
                self._enter("stopping")
            case Stopped():
                self._enter("stopped")

    def _waits(self, by: Literal["sink", "registry"], seconds: float, why: str, hint: str = "") -> None:
        self.turned_at = monotonic()
        before = self.held_up
        since = before.since if before is not None and before.by == by else self.turned_at - seconds
        self.held_up = Hindrance(by, since, why, since, hint)

    def _enter(self, state: State) -> None:
        self._streamed = state in _STREAMING or (state == "stopping" and self._streamed)
        if state != "paused":
            self.paused_at = None
        if state not in _STREAMING:
            self.held_up = None
        if state not in (*_STREAMING, "retrying", "starting"):  # a run that ends in an error owes what it owed
            self.stalled = self.behind_since = None
        if state in ("standing by", "retrying", "stopped", "failed"):
            self.in_flight = 0  # or the sink still settles it, while it is not known whether this instance leads
        if state != self.state:
            self.state, self.state_since = state, monotonic()

    def _troubled(self, text: str, error: str, hint: str = "") -> None:
        self.last_error, self.hint = LastError(text, error, time()), hint
