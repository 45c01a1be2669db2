"""What a run found, as JSON: written after every measurement, read again to put several runs into one report."""

import json
import os
import platform
import subprocess
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import confluent_kafka
import psycopg

from tests.bench.peers.bench import Bench
from tests.bench.peers.measure import Plan
from tests.servers.kafka_jars import kafka_version


@dataclass(frozen=True)
class Result:
    """One measurement of one variant of one peer, or why there is none.

    variant and measurement are empty where the reason holds for all of them.
    """

    peer: str
    version: str
    variant: str = ""
    measurement: str = ""
    round: int = 1
    values: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    reason: str = ""  # why there are no values
    log: str = ""  # what the peer wrote last, where it failed


@dataclass(frozen=True)
class Run:
    """Everything of one start of the runner."""

    date: str
    command: str
    machine: dict[str, Any]
    versions: dict[str, str]
    plan: dict[str, Any]
    results: list[Result] = field(default_factory=list)

    def write(self, file: Path) -> None:
        """All or nothing: a run may be cut off at any time."""
        partial = file.with_suffix(".partial")
        partial.write_text(json.dumps(asdict(self), indent=1) + "\n")
        partial.replace(file)


def read(file: Path) -> Run:
    fields = json.loads(file.read_text())
    return Run(**{**fields, "results": [Result(**result) for result in fields["results"]]})


def new_run(bench: Bench, plan: Plan, command: str) -> Run:
    """Nothing found yet."""
    return Run(f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC", command, _machine(), _versions(bench), asdict(plan))


def merge(runs: Iterable[Run]) -> list[Result]:
    """Those of a later run take the place of an earlier one's; within a run, every round counts."""
    merged: list[Result] = []
    for run in runs:
        peers, places = {result.peer for result in run.results}, {_place(result) for result in run.results}
        # That a peer could not be run at all is no longer said where a later run has tried again.
        kept = [old for old in merged if _place(old) not in places and (old.measurement or old.peer not in peers)]
        merged = [*kept, *run.results]
    return merged


def _place(result: Result) -> tuple[str, str, str]:
    return result.peer, result.variant, result.measurement


def _machine() -> dict[str, Any]:
    memory_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {"cores": os.cpu_count(), "memory_gb": round(memory_bytes / 2**30), "cpu": _cpu_model()}


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.machine()


def _versions(bench: Bench) -> dict[str, str]:
    return {
        "PostgreSQL": str(bench.postgres.execute("SHOW server_version")[0][0]).split()[0],
        "Kafka": kafka_version(),
        "Java (of Kafka)": _java(),
        "Python": platform.python_version(),
        "psycopg": psycopg.__version__,
        "librdkafka": confluent_kafka.libversion()[0],
    }


def _java() -> str:
    answer = subprocess.run(["java", "-version"], capture_output=True, text=True)
    return answer.stderr.partition('"')[2].partition('"')[0]
