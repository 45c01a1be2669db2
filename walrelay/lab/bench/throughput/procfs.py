"""What processes of this machine have used, as Linux tells it in /proc; None where it does not."""

import resource
import sys
from pathlib import Path


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
