"""From readings to runs: medians over the rounds, and never a number from an incomplete reading. No I/O."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import NamedTuple

from walrelay.errors import Fatal
from walrelay.lab.bench.results import Run

_MILLION = 1_000_000


class Reading(NamedTuple):
    """One reader, once through the backlog. The walsender's CPU is None where it cannot be seen."""

    events: int
    seconds: float
    cpu_s: float
    walsender_cpu_s: float | None
    peak_rss_bytes: int


def complete(name: str, reading: Reading, expected: int) -> Reading:
    """The reading, if it delivered every event once."""
    if reading.events != expected:
        raise Fatal(
            f"{name} delivered {reading.events:,} of {expected:,} events: there is no number from such a run",
            hint="If nobody else wrote to walrelay_bench_backlog.outbox meanwhile, this is a bug. Please report it.",
        )
    return reading


def runs(readings: Mapping[str, Sequence[Reading]]) -> list[Run]:
    """In the order of the mapping."""
    limit = readings.get("limit")
    limit_rate = _rate(limit) if limit else None
    return [_run(name, taken, limit_rate) for name, taken in readings.items() if taken]


def _run(name: str, readings: Sequence[Reading], limit_rate: float | None) -> Run:
    rate = _rate(readings)
    senders = [reading.walsender_cpu_s / reading.events for reading in readings if reading.walsender_cpu_s is not None]
    return Run(
        name=name,
        events_per_second=rate,
        ratio_to_limit=rate / limit_rate if limit_rate else None,
        cpu_s_per_million=median(reading.cpu_s / reading.events for reading in readings) * _MILLION,
        walsender_cpu_s_per_million=median(senders) * _MILLION if senders else None,
        peak_rss_bytes=max(reading.peak_rss_bytes for reading in readings),
    )


def _rate(readings: Sequence[Reading]) -> float:
    return median(reading.events / reading.seconds for reading in readings)
