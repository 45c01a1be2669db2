"""What a whole tree of processes costs: CPU seconds and resident bytes, sampled from /proc.

A tree is a process, everything in its session and process group, and their descendants, wherever those moved to. CPU
of a child that ended is in its parent's children's time once the parent waited for it; a process whose parent was gone
as well counts with what it had when it was last seen. Resident bytes are summed over the processes, so a page that
two of them share counts twice.
"""

import contextlib
import os
import threading
from bisect import bisect_right
from collections.abc import Mapping
from pathlib import Path
from time import time
from types import TracebackType
from typing import NamedTuple, Self

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

INTERVAL = 0.05


class Process(NamedTuple):
    """One process, from /proc/PID/stat."""

    pid: int
    parent: int
    group: int
    session: int
    started: int  # ticks since boot: tells a pid that was given out again
    cpu: float  # seconds, with those of the children that it waited for
    rss_bytes: int


class Sample(NamedTuple):
    at: float  # Unix time
    cpu: float  # seconds of the tree since it began
    rss_bytes: int


class Tree:
    """The processes that began with `root`."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._members: dict[int, Process] = {}
        self._strangers: set[int] = set()
        self._gone = 0.0

    @property
    def pids(self) -> list[int]:
        """As of the last look."""
        return list(self._members)

    def look(self) -> Sample:
        """One reading of /proc; a process that was no member before is read once only."""
        pids = {int(name) for name in os.listdir("/proc") if name.isdecimal()}
        self._strangers &= pids
        seen = {process.pid: process for pid in pids - self._strangers if (process := _read(pid))}
        members = _members(self._root, seen, self._members)
        self._strangers |= seen.keys() - members.keys()
        self._gone += _left_behind(self._members, members)
        self._members = members
        cpu = self._gone + sum(process.cpu for process in members.values())
        return Sample(time(), cpu, sum(process.rss_bytes for process in members.values()))


class Sampler:
    """Looks at a tree every 50 ms, in a thread, from __enter__ to __exit__."""

    def __init__(self, root: int) -> None:
        self.tree = Tree(root)
        self.samples: list[Sample] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)

    def cpu_at(self, at: float) -> float:
        """CPU seconds of the tree by that time, between two samples in proportion."""
        return cpu_at(self.samples, at)

    @property
    def peak_rss_bytes(self) -> int:
        return max((sample.rss_bytes for sample in self.samples), default=0)

    def __enter__(self) -> Self:
        self.samples.append(self.tree.look())
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        self.samples.append(self.tree.look())

    def _run(self) -> None:
        while not self._stop.wait(INTERVAL):
            self.samples.append(self.tree.look())


def cpu_at(samples: list[Sample], at: float) -> float:
    """The CPU seconds at a time; before the first sample that sample's, after the last that one's."""
    after = bisect_right(samples, at, key=lambda sample: sample.at)
    if after == 0:
        return samples[0].cpu
    if after == len(samples):
        return samples[-1].cpu
    left, right = samples[after - 1], samples[after]
    return left.cpu + (right.cpu - left.cpu) * (at - left.at) / (right.at - left.at)


def _members(root: int, seen: Mapping[int, Process], before: Mapping[int, Process]) -> dict[int, Process]:
    members = {pid: process for pid, process in seen.items() if _belongs(process, root) or _is_same(process, before)}
    while grown := {p: process for p, process in seen.items() if process.parent in members and p not in members}:
        members |= grown
    return members


def _belongs(process: Process, root: int) -> bool:
    return root in (process.pid, process.group, process.session)


def _is_same(process: Process, before: Mapping[int, Process]) -> bool:
    known = before.get(process.pid)
    return known is not None and known.started == process.started


def _left_behind(before: Mapping[int, Process], now: Mapping[int, Process]) -> float:
    """CPU of those that ended and whose parent cannot have added it to its own."""
    ended = [process for process in before.values() if not _is_same(process, now)]
    return sum(process.cpu for process in ended if process.parent not in now)


def _read(pid: int) -> Process | None:
    """None when it is gone."""
    with contextlib.suppress(OSError):
        # The name is in parentheses and may hold anything, also parentheses: what counts comes after the last.
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b") ")[2].split()
        ticks = sum(int(field) for field in fields[11:15])
        parent, group, session = (int(field) for field in fields[1:4])
        return Process(
            pid, parent, group, session, int(fields[19]), ticks / _TICKS, max(0, int(fields[21])) * _PAGE_BYTES
        )
    return None
