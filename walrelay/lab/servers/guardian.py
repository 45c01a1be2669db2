"""Ends and deletes what a demo or the tests leave, however they ended: a small process of its own, run as a script.

It reads from a pipe what was started and made. The kernel closes the pipe when the demo goes, after SIGKILL too;
then the guardian ends the processes by pid and deletes the directories. A parent-death signal would not do: it is
Linux's alone, it is lost when a server changes its user, and it fires when the *thread* that started the server ends.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path


class Guardian:
    """The demo's end of the pipe. `patience`: seconds that a process has to end before it is killed."""

    def __init__(self, patience: float = 5.0) -> None:
        self._patience = patience
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__, str(patience)],
            stdin=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C in the terminal must not reach it
        )

    def watch_me(self, last_signal: signal.Signals) -> None:
        """Have the caller's process group ended with that signal, and with SIGKILL when that does not do.

        Called by a child between fork and exec: told by its parent, it would be unknown if that were killed just then.
        """
        self.watch_process(os.getpid(), last_signal)

    def watch_process(self, pid: int, last_signal: signal.Signals) -> None:
        """Like watch_me, but called by the parent; a process without a group of its own is ended alone."""
        self._tell(f"process {pid} {int(last_signal)}")

    def forget_process(self, pid: int) -> None:
        """The process was waited for: its pid may belong to someone else from now on."""
        self._tell(f"forget {pid}")

    def watch_directory(self, path: Path) -> None:
        """Have the directory deleted."""
        self._tell(f"directory {path}")

    def close(self) -> None:
        """Returns when everything is gone."""
        self._process.communicate(timeout=10 + 3 * self._patience)

    def _tell(self, line: str) -> None:
        assert self._process.stdin is not None
        os.write(self._process.stdin.fileno(), f"{line}\n".encode())  # short enough to arrive as a whole


def guard(lines: Iterable[str], patience: float) -> None:
    """Read until the pipe is closed, then end and delete what is left."""
    processes: dict[int, int] = {}
    directories: list[Path] = []
    for line in lines:
        kind, _, rest = line.rstrip("\n").partition(" ")
        if kind == "process":
            pid, _, last_signal = rest.partition(" ")
            processes[int(pid)] = int(last_signal)
        elif kind == "forget":
            processes.pop(int(rest), None)
        elif kind == "directory":
            directories.append(Path(rest))
    for group, number in processes.items():
        _send(group, number)
    _wait(lambda: not any(_send(group, 0) for group in processes), patience)
    for group in processes:
        _send(group, signal.SIGKILL)
    for directory in directories:
        _wait(partial(_deleted, directory), patience)


def _send(pid: int, number: int) -> bool:
    for send in (os.killpg, os.kill):
        with contextlib.suppress(OSError):
            send(pid, number)
            return True
    return False


def _deleted(directory: Path) -> bool:
    """A process on its way out may still put files there: then not yet."""
    shutil.rmtree(directory, ignore_errors=True)
    return not directory.exists()


def _wait(condition: Callable[[], bool], patience: float) -> None:
    deadline = time.monotonic() + patience
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        guard(sys.stdin, float(sys.argv[1]))
