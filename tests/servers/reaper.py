"""Ends what the tests started when the tests themselves were ended without a chance to tidy up.

A small process of its own reads from a pipe what was started and made. The kernel closes the pipe when the test
process goes, however it goes (SIGKILL too); then the reaper ends the processes by pid and deletes the directories.
A parent-death signal would not do: it is lost when a server changes its user, and it fires when the *thread* that
started the server ends.
"""

import atexit
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import IO

PATIENCE = 5.0


def watch_process(pid: int, end_with: signal.Signals) -> None:
    """Have `pid` ended with the given signal (SIGKILL after 5 s) when this process is gone."""
    _tell(f"process {pid} {int(end_with)}")


def forget_process(pid: int) -> None:
    """The process was waited for: its pid may belong to someone else from now on."""
    _tell(f"forget {pid}")


def watch_directory(path: Path) -> None:
    """Have the directory deleted when this process is gone."""
    _tell(f"directory {path}")


def _tell(line: str) -> None:
    pipe = _pipe()
    pipe.write(line + "\n")
    pipe.flush()


@cache
def _pipe() -> IO[str]:
    reaper = subprocess.Popen(
        [sys.executable, "-I", "-S", __file__],
        stdin=subprocess.PIPE,
        text=True,
        start_new_session=True,  # Ctrl-C in the terminal must not reach it
    )
    assert reaper.stdin is not None
    pipe = reaper.stdin
    owner = os.getpid()

    def leave() -> None:
        if os.getpid() != owner:  # a forked child runs our atexit functions too
            return
        pipe.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            reaper.wait(2 * PATIENCE)

    atexit.register(leave)
    return pipe


def reap(lines: Iterable[str]) -> None:
    """Read until the pipe is closed, then end and delete what is left."""
    processes: dict[int, int] = {}
    directories: list[str] = []
    for line in lines:
        kind, _, rest = line.rstrip("\n").partition(" ")
        if kind == "process":
            pid_text, _, signal_text = rest.partition(" ")
            processes[int(pid_text)] = int(signal_text)
        elif kind == "forget":
            processes.pop(int(rest), None)
        elif kind == "directory":
            directories.append(rest)
    for pid, number in processes.items():
        _send(pid, number)
    deadline = time.monotonic() + PATIENCE
    while any(_send(pid, 0) for pid in processes) and time.monotonic() < deadline:
        time.sleep(0.02)
    for pid in processes:
        _send(pid, signal.SIGKILL)
    for directory in directories:
        shutil.rmtree(directory, ignore_errors=True)


def _send(pid: int, number: int) -> bool:
    try:
        os.kill(pid, number)
    except OSError:
        return False
    return True


if __name__ == "__main__":
    reap(sys.stdin)
