"""What every process of the benchmark needs: the names of what is on the servers, how it ends, what it has used."""

import json
import os
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from time import monotonic, process_time
from typing import Any

SCHEMA = "walrelay_bench"
TABLE = f"{SCHEMA}.outbox"
BUSINESS = f"{SCHEMA}.orders"
SLOT = PUBLICATION = "walrelay_bench"
ROLE = "walrelay_bench_worker"  # on a server of its own only
TOPIC = "walrelay.bench.order"  # as the relay's settings make it of the aggregate type
POSITIONS = "walrelay.bench.positions"  # compacted; made by the relay itself
CHANNEL = "walrelay_bench"  # notified when rows were committed, while a listening worker is measured


def run(main: Callable[..., Any], *arguments: Any) -> None:
    """`WALRELAY_TRACEBACK=1` shows where it was, as for a command."""
    try:
        main(*arguments)
    except Exception as error:
        if os.environ.get("WALRELAY_TRACEBACK"):
            raise
        sys.exit(_words(error))


def _words(error: Exception) -> str:
    about = error.args[0] if error.args else None
    if callable(text := getattr(about, "str", None)):  # a KafkaError, whose own text is for programmers
        return str(text())
    return f"{type(error).__name__}: {error}"


class Clock:
    """Starts when it is made."""

    def __init__(self) -> None:
        self._began, self._cpu = monotonic(), process_time()
        self.seconds = self.cpu_s = 0.0

    def stop(self) -> None:
        self.seconds, self.cpu_s = monotonic() - self._began, process_time() - self._cpu


def tell(events: int, clock: Clock) -> None:
    """What the process that started this one reads."""
    peak = peak_rss_bytes() or maximum_rss_bytes(resource.getrusage(resource.RUSAGE_SELF))
    found = {"events": events, "seconds": clock.seconds, "cpu_s": clock.cpu_s, "peak_rss_bytes": peak}
    sys.stdout.write(json.dumps(found) + "\n")


def peak_rss_bytes(pid: int | str = "self") -> int | None:
    """The peak RSS of a running process. getrusage and wait4 would count in what its parent had when it was started."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return None
    line = next((line for line in status.splitlines() if line.startswith("VmHWM:")), None)
    return int(line.split()[1]) * 1024 if line else None  # none: a process that has ended and was not waited for


def maximum_rss_bytes(usage: resource.struct_rusage) -> int:
    """For systems without /proc."""
    return usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
