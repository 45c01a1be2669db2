"""What was asked of a benchmark and what it found, as values, and as the JSON that other programs read.

Imports nothing that must be installed for it."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

from walrelay.lab.brokers.kinds import KINDS

READERS = {
    "limit": "pg_recvlogical -f /dev/null",
    "null": "walrelay into a sink that forgets",
    "null-metrics": "like null, with metrics that are scraped once a second",
    "mock": "walrelay into librdkafka's mock cluster, in a process of its own",
    "mock-metrics": "like mock, with metrics that are scraped once a second",
    "kafka": "walrelay into real Kafka, acks=all",
    "exactly-once": "like kafka, but in Kafka transactions that also hold the position",
    "wal2json": "like mock, with wal2json instead of pgoutput",
    "polling": "a worker that polls and updates the table, into the mock cluster",
}

SINKS = {kind: f"walrelay into {each.into}" for kind, each in KINDS.items() if kind != "kafka"}
"""Further readers, which are measured where they are asked for."""

BESIDE_SINKS = ("limit", "null")
"""What a sink that was asked for is measured beside, where nothing else was."""

EVENTS, QUICK_EVENTS = 500_000, 200_000
POLLED_EVENTS = 50_000  # at most: a polling worker needs minutes for what the others do in seconds
ROW_BYTES, LEAST_ROW_BYTES = 235, 160
ROWS_PER_TRANSACTION = 10
KEYS = 1000
ROUNDS = 3


class ThroughputRequest(NamedTuple):
    """What was asked of `walrelay bench throughput`: the backlog, who reads it, and how often.

    `rows_per_transaction` None: all in one.
    """

    events: int = EVENTS
    row_bytes: int = ROW_BYTES
    rows_per_transaction: int | None = ROWS_PER_TRANSACTION
    rounds: int = ROUNDS
    names: Sequence[str] = tuple(READERS)
    binary: bool = True
    tcp: bool = True  # to a server of its own
    quick: bool = False
    command: str = ""  # by which it was asked for
    keys: int = KEYS
    sink_url: str | None = None  # of the one sink among the names

    @property
    def sinks(self) -> Sequence[str]:
        """Those among the names."""
        return [name for name in self.names if name in SINKS]

    def expected(self, name: str) -> int:
        """How many events that reader has to deliver."""
        return min(self.events, POLLED_EVENTS) if name == "polling" else self.events


def rows_per_transaction(text: str) -> int | None:
    """A number from 1 on, or `all`, which is None. ValueError for anything else."""
    if text == "all":
        return None
    if not text.isascii() or not text.isdecimal() or int(text) == 0:
        raise ValueError(f"{text!r} is neither a number from 1 on nor 'all'")
    return int(text)


def reader_names(text: str) -> Sequence[str]:
    """Names of readers, with commas between them, in the order of READERS. ValueError for an unknown one."""
    asked = {name.strip() for name in text.split(",")}
    if unknown := sorted(asked - READERS.keys()):
        raise ValueError(f"{', '.join(map(repr, unknown))}: not among {', '.join(READERS)}")
    return [name for name in READERS if name in asked]


def turns(names: Sequence[str], round_: int) -> Sequence[str]:
    """Who reads when: everybody is first once, so that no one always meets the warmest cache."""
    first = round_ % len(names)
    return [*names[first:], *names[:first]]


class LatencyRequest(NamedTuple):
    """What was asked of `walrelay bench latency`.

    `seconds` of writing in a segment; `idle` seconds in those of the last round.
    """

    names: Sequence[str]
    mode: str
    rate: float
    seconds: float
    rounds: int
    idle: float
    command: str

    def workload(self) -> Mapping[str, Any]:
        """`rate` in commits a second; whole numbers without a decimal point."""
        numbers = {"rate": self.rate, "rounds": self.rounds, "seconds": self.seconds, "idle_seconds": self.idle}
        return {**{name: int(n) if n == int(n) else n for name, n in numbers.items()}, "mode": self.mode}


class MaxRatio(NamedTuple):
    """How many times the median of `slower` may be that of `faster`."""

    slower: str
    faster: str
    times: float

    @classmethod
    def parse(cls, text: str) -> Self:
        """ "exactly-once/walrelay=6". ValueError for anything else."""
        names, _, times = text.partition("=")
        slower, _, faster = names.partition("/")
        try:
            found = cls(slower.strip(), faster.strip(), float(times))
        except ValueError:
            found = None
        if found is None or not (found.slower and found.faster and 0 < found.times < math.inf):
            raise ValueError(f"{text!r} is not like exactly-once/walrelay=6")
        return found


class Cost(NamedTuple):
    """What a strategy costs beyond the writer's own work. None: could not be measured."""

    statements: float | None
    wal_bytes: float | None
    dead_tuples: float | None
    server_cpu_s: float | None
    worker_cpu_s: float | None = None  # of the relay, or of the process that polls; the rest is what the database paid


class Strategy(NamedTuple):
    """One strategy over all rounds. Milliseconds from COMMIT's return to receipt, of `events` events."""

    name: str
    p50_ms: float
    p90_ms: float
    p99_ms: float
    max_ms: float
    histogram: Sequence[tuple[float, int]]  # (upper bound in ms, events), bounds rising evenly on a log axis
    events: int
    lost: int
    duplicates: int
    out_of_order: int
    per_1000: Cost  # events
    idle_minute: Cost | None  # None: not measured, as in the quick form
    worker_rss_bytes: int | None = None  # the most of any round; None: there is no worker, or it cannot be seen
    first_event_s: float | None = None  # from the worker's start to the first event, which waited; median of the rounds
    round_p50_ms: Sequence[float] = ()  # of each round

    @property
    def sound(self) -> bool:
        """Nothing was lost, repeated or out of order."""
        return not (self.lost or self.duplicates or self.out_of_order)

    def json(self) -> dict[str, Any]:
        said = {name: getattr(self, name) for name in (*_PLAIN, *_WORKER)}
        said |= {f"{name}_per_1000": value for name, value in self.per_1000._asdict().items()}
        idle = None if self.idle_minute is None else self.idle_minute._asdict()
        histogram = [{"up_to_ms": bound, "events": count} for bound, count in self.histogram]
        return {**said, "idle_per_minute": idle, "histogram": histogram}


_PLAIN = ("name", "p50_ms", "p90_ms", "p99_ms", "max_ms", "events", "lost", "duplicates", "out_of_order")
_WORKER = ("worker_rss_bytes", "first_event_s", "round_p50_ms")


class LatencyResult(NamedTuple):
    """`walrelay bench latency`. `workload`: what the writer did; `command`: how it was asked for."""

    strategies: Sequence[Strategy]
    writer_per_1000: Cost  # what the writer alone costs: the zero of the others
    writer_cpu_s: Sequence[float]  # of it the server's CPU, in each round: how far the noise goes
    workload: Mapping[str, Any]  # rate, mode, rounds, seconds ...
    machine: Mapping[str, Any]
    versions: Mapping[str, str]
    command: str
    date: str

    def json(self) -> dict[str, Any]:
        return {
            "strategies": [strategy.json() for strategy in self.strategies],
            "writer_per_1000": self.writer_per_1000._asdict(),
            "writer_server_cpu_s_per_1000": list(self.writer_cpu_s),
            "workload": dict(self.workload),
            "machine": dict(self.machine),
            "versions": dict(self.versions),
            "command": self.command,
            "date": self.date,
        }


class Run(NamedTuple):
    """One reader of the backlog: medians over the rounds, the highest RSS of all."""

    name: str
    events_per_second: float
    ratio_to_limit: float | None  # None: the limit was not measured
    cpu_s_per_million: float
    walsender_cpu_s_per_million: float | None  # None: a reader without a walsender, or a server out of reach
    peak_rss_bytes: int
    round_events_per_second: Sequence[float] = ()  # of each round

    def json(self) -> dict[str, Any]:
        return self._asdict()


class ThroughputResult(NamedTuple):
    """`walrelay bench throughput`. `not_run`: (name, reason) of what this machine could not run."""

    runs: Sequence[Run]
    not_run: Sequence[tuple[str, str]]
    workload: Mapping[str, Any]  # events, row_bytes, rows_per_transaction, rounds
    machine: Mapping[str, Any]
    versions: Mapping[str, str]
    command: str
    date: str

    def json(self) -> dict[str, Any]:
        return {
            "runs": [run.json() for run in self.runs],
            "not_run": [{"name": name, "reason": reason} for name, reason in self.not_run],
            "workload": dict(self.workload),
            "machine": dict(self.machine),
            "versions": dict(self.versions),
            "command": self.command,
            "date": self.date,
        }
