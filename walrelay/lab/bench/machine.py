"""What a number was measured on: without it the number says nothing."""

import os
import platform
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
