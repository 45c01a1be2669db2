"""Where it is measured: PostgreSQL and Kafka of the benchmark's own or the user's, this machine and its processes."""

import os
import platform
import sys
import time
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import confluent_kafka
import psutil
import psycopg

from walrelay.lab.servers.backstage import Backstage
from walrelay.lab.servers.kafka import Kafka, KafkaBroker, MockKafka, RealKafka, default_home
from walrelay.lab.servers.postgres import EmbeddedPostgres, OwnPostgres, Programs, newest_programs, programs_at


class Servers(NamedTuple):
    """What was asked for; nothing was: servers of the benchmark's own."""

    dsn: str | None = None
    postgres_bin: Path | None = None  # a directory with initdb and postgres
    bootstrap_servers: str | None = None
    kafka_home: Path | None = None  # with Apache Kafka's jars

    def postgres(
        self, backstage: Backstage, settings: Mapping[str, str | int], *, tcp: bool = False
    ) -> EmbeddedPostgres | OwnPostgres:
        """Begins to start it. `settings` and `tcp` are for a server of our own; the user's is left as it is."""
        if self.dsn:
            return OwnPostgres(self.dsn)
        lines = "".join(f"{name} = '{value}'\n" for name, value in settings.items())
        return EmbeddedPostgres(backstage, self.programs(), lines, tcp=tcp)

    def programs(self) -> Programs:
        """The programs of the benchmark's own server."""
        return programs_at(self.postgres_bin) if self.postgres_bin else newest_programs()

    def kafka(self, backstage: Backstage) -> Kafka:
        """A real one where the machine has one; begins to start it."""
        if self.bootstrap_servers:
            return RealKafka(self.bootstrap_servers)
        home = self.kafka_home or default_home()
        return KafkaBroker(backstage, home) if home else MockKafka(backstage)


def kafka_version(kafka: Kafka) -> str:
    """Brokers do not tell theirs; of our own it is known from the jars."""
    if isinstance(kafka, KafkaBroker):
        return kafka.name.removeprefix("Kafka ").removesuffix(" of its own")
    return "librdkafka's mock cluster" if isinstance(kafka, MockKafka) else "of unknown version"


def machine() -> Mapping[str, str | int | float]:
    """Cores that this process may use, memory, processor and operating system."""
    return {
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "processor": _processor(),
        "system": platform.system(),
        "release": platform.release(),
    }


def versions(postgres: str, kafka: str, brokers: Mapping[str, str] = MappingProxyType({})) -> Mapping[str, str]:
    """The versions of everything that takes part; those of the servers as they were found. `brokers`: of others."""
    return {
        "walrelay": version("walrelay"),
        "python": platform.python_version(),
        "psycopg": psycopg.__version__,
        "librdkafka": str(confluent_kafka.libversion()[0]),
        "postgresql": postgres,
        "kafka": kafka,
        **{name: version for name, version in brokers.items() if version},
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def cpu_s(pid: int) -> float | None:
    """User and system time of a process that runs, of all its threads; None: cannot be seen.

    Linux has a clock for each process, whose number is made of the pid (clock_getcpuclockid) and which counts
    nanoseconds. psutil has ticks of 10 ms, of which each of a server's dozen processes would lose a part.
    """
    if sys.platform == "linux":
        try:
            return time.clock_gettime(~pid << 3 | 2)
        except OSError:
            return None
    try:
        times = psutil.Process(pid).cpu_times()
    except psutil.Error:
        return None
    return float(times.user + times.system)


def title(process: psutil.Process) -> str:
    """How a process calls itself; empty if that cannot be seen."""
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""
