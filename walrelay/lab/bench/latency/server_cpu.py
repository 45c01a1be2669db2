"""The CPU time of a PostgreSQL server on this machine, all its processes together, from /proc."""

import os
from collections.abc import Iterator
from pathlib import Path

from walrelay.postgres.catalog import Catalog

_PROC = Path("/proc")
_TICK = os.sysconf("SC_CLK_TCK")


class ServerCpu:
    """Of the server that a connection leads to; None where its processes cannot be seen."""

    def __init__(self, catalog: Catalog) -> None:
        self._postmaster = _postmaster(catalog)

    def seconds(self) -> float | None:
        """Since it was started: of the processes that run, and of those that ended and were waited for."""
        if self._postmaster is None:
            return None
        try:
            return sum(_running_s(pid) for pid in _family(self._postmaster)) + _ended_s(self._postmaster)
        except OSError:
            return None


def _postmaster(catalog: Catalog) -> int | None:
    """The parent of our own backend, if that process is what it should be: the server may be on another machine."""
    info = catalog.connection.info
    try:
        backend = info.backend_pid
        title = (_PROC / str(backend) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        ours = title.startswith("postgres") and f" {info.user} {info.dbname} " in title
        return int(_stat(backend)[1]) if ours else None
    except OSError:
        return None


def _family(postmaster: int) -> Iterator[int]:
    yield postmaster
    for directory in _PROC.glob("[0-9]*"):
        try:
            if int(_stat(int(directory.name))[1]) == postmaster:
                yield int(directory.name)
        except OSError:
            continue  # it ended meanwhile


def _running_s(pid: int) -> float:
    """By schedstat, which counts nanoseconds: there are a dozen processes, and ticks of 10 ms are cut off for each."""
    try:
        return int((_PROC / str(pid) / "schedstat").read_text().split()[0]) / 1e9
    except OSError:
        return sum(map(int, _stat(pid)[11:13])) / _TICK


def _ended_s(parent: int) -> float:
    return sum(map(int, _stat(parent)[13:15])) / _TICK


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the state on: parent's pid at 1, user and system time at 11 and 12, of ended
    children at 13 and 14. The name before them may hold anything, blanks and brackets too."""
    return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
