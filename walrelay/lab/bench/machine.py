"""This machine: what a number was measured on, and what processes of it have used, as Linux tells it in /proc."""

import os
import platform
import resource
import sys
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

import confluent_kafka
import psycopg


def machine() -> Mapping[str, str | int | float]:
    """Cores that this process may use, memory, processor and operating system."""
    return {
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "processor": _processor(),
        "system": platform.system(),
        "release": platform.release(),
    }


def versions(postgres: str, kafka: str) -> Mapping[str, str]:
    """Of everything that takes part; the servers' as they were found."""
    return {
        "walrelay": version("walrelay"),
        "python": platform.python_version(),
        "psycopg": psycopg.__version__,
        "librdkafka": str(confluent_kafka.libversion()[0]),
        "postgresql": postgres,
        "kafka": kafka,
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def cpu_s(pid: int) -> float | None:
    """User and system time of a process that runs and has one thread, as PostgreSQL's have."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9
    except OSError:
        return None


def peak_rss_bytes(pid: int | str = "self") -> int | None:
    """Of a process that runs. getrusage and wait4 would count in what its parent had when it was started."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return None
    line = next((line for line in status.splitlines() if line.startswith("VmHWM:")), None)
    return int(line.split()[1]) * 1024 if line else None  # none: a process that has ended and was not waited for


def maximum_rss_bytes(usage: resource.struct_rusage) -> int:
    """For systems without /proc."""
    return usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def is_walsender(pid: int) -> bool:
    """Whether that process is one on this machine: the pid may be that of a server elsewhere, or in a container."""
    try:
        return b"walsender" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
