"""Results as a benchmark might find them, made up."""

import math
from collections.abc import Sequence

from walrelay.lab.bench.results import Cost, LatencyResult, Run, Strategy, ThroughputResult

MACHINE = {"cores": 2, "memory_gib": 7.8, "processor": "Example CPU @ 2.60GHz", "system": "Linux", "release": "6.1.0"}
VERSIONS = {
    "walrelay": "0.1.0",
    "python": "3.11.7",
    "psycopg": "3.3.9",
    "librdkafka": "2.16.0",
    "postgresql": "15.18",
    "kafka": "4.3.0",
}


_FREE = Cost(0.0, 0.0, 0.0, 0.0)


def strategy(
    name: str,
    latencies: tuple[float, float, float, float],
    *,
    broken: tuple[int, int, int] = (0, 0, 0),
    per_1000: Cost = _FREE,
    idle_minute: Cost | None = None,
) -> Strategy:
    """Its latencies are p50, p90, p99 and max; the histogram is a hump around the p50."""
    hump, rounds = _hump(latencies[0]), [latencies[0]] * 3
    return Strategy(name, *latencies, hump, 6000, *broken, per_1000, idle_minute, 62_914_560, 0.71, rounds)


def latency(strategies: Sequence[Strategy] | None = None) -> LatencyResult:
    return LatencyResult(
        strategies=STRATEGIES if strategies is None else strategies,
        writer_per_1000=Cost(None, 612_000.0, 0.0, 0.184),
        writer_cpu_s=[0.171, 0.19, 0.184],
        workload={"mode": "steady", "rate": 200, "seconds": 10, "rounds": 3, "idle_seconds": 60},
        machine=MACHINE,
        versions=VERSIONS,
        command="walrelay bench latency",
        date="2026-11-21",
    )


def throughput() -> ThroughputResult:
    return ThroughputResult(
        runs=[
            Run("limit", 134_592.4, 1.0, 0.42, 7.44, 9_437_184),
            Run("null", 121_480.3, 0.903, 7.02, 7.31, 65_011_712),
            Run("mock", 114_097.2, 0.848, 8.31, 7.12, 72_351_744),
            Run("kafka", 98_204.9, 0.73, 8.64, 7.05, 74_448_896, [91_300.2, 98_204.9, 99_017.1]),
            Run("polling", 4_480.7, 0.033, 119.6, None, 51_788_928),
        ],
        not_run=[("wal2json", 'could not access file "wal2json": No such file or directory')],
        workload={
            "events": 500_000,
            "row_bytes": 235,
            "rows_per_transaction": 10,
            "rounds": 3,
            "pgoutput": "binary",
            "polled_events": 50_000,
        },
        machine=MACHINE,
        versions=VERSIONS,
        command="walrelay bench throughput",
        date="2026-11-21",
    )


def _hump(p50: float) -> list[tuple[float, int]]:
    if not p50 > 0:
        return []
    bounds = [0.1 * 10 ** (step / 10) for step in range(52)]
    return [(bound, round(1200 * math.exp(-((math.log10(bound / p50) / 0.25) ** 2)))) for bound in bounds]


WALRELAY = strategy(
    "walrelay",
    (1.4, 2.6, 6.2, 33.6),
    per_1000=Cost(0.4, 1_250.0, 0.0, 0.231, 0.583),
    idle_minute=Cost(6.0, 0.0, 0.0, 0.011, 0.12),
)
STRATEGIES = [
    WALRELAY,
    strategy(
        "polling-5s",
        (2510.8, 4512.6, 4988.1, 5093.4),
        broken=(3, 0, 0),
        per_1000=Cost(6.1, 398_700.0, 1000.0, None),
        idle_minute=Cost(36.0, 0.0, 0.0, -0.002),
    ),
    strategy(
        "polling-1s",
        (512.4, 911.0, 1006.7, 1071.5),
        per_1000=Cost(21.3, 402_100.0, 1000.0, 0.151),
        idle_minute=Cost(180.0, 0.0, 0.0, 0.034),
    ),
    strategy(
        "polling-100ms",
        (55.3, 96.4, 108.9, 171.2),
        per_1000=Cost(204.8, 418_300.0, 1000.0, 0.212),
        idle_minute=Cost(1800.0, 0.0, 0.0, 0.298),
    ),
    strategy(
        "polling-10ms",
        (8.9, 13.1, 19.4, 61.7),
        per_1000=Cost(2004.5, 509_000.0, 1000.0, 0.642),
        idle_minute=Cost(18_004.0, 0.0, 0.0, 2.61),
    ),
    strategy(
        "polling-backoff",
        (541.2, 940.4, 1031.0, 1088.9),
        per_1000=Cost(20.1, 401_800.0, 1000.0, 0.149),
        idle_minute=Cost(9.0, 0.0, 0.0, 0.004),
    ),
    strategy(
        "polling-notify",
        (4.3, 7.9, 15.2, 48.3),
        per_1000=Cost(4010.3, 611_400.0, 1000.0, 0.871),
        idle_minute=Cost(36.0, 0.0, 0.0, 0.002),
    ),
]
