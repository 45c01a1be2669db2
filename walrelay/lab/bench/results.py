"""What a benchmark found, as values, and as the JSON that other programs read."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple


class Cost(NamedTuple):
    """What the database paid on behalf of a strategy, beyond the writer's own work. None: could not be measured."""

    statements: float | None
    wal_bytes: float | None
    dead_tuples: float | None
    server_cpu_s: float | None


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

    @property
    def sound(self) -> bool:
        """Nothing was lost, repeated or out of order."""
        return not (self.lost or self.duplicates or self.out_of_order)

    def json(self) -> dict[str, Any]:
        said = {name: getattr(self, name) for name in _PLAIN}
        said |= {f"{name}_per_1000": value for name, value in self.per_1000._asdict().items()}
        idle = None if self.idle_minute is None else self.idle_minute._asdict()
        histogram = [{"up_to_ms": bound, "events": count} for bound, count in self.histogram]
        return {**said, "idle_per_minute": idle, "histogram": histogram}


_PLAIN = ("name", "p50_ms", "p90_ms", "p99_ms", "max_ms", "events", "lost", "duplicates", "out_of_order")


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
