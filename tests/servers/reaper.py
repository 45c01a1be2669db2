"""Ends what the tests started when they were ended without a chance to tidy up: with the guardian of the demo."""

import atexit
import contextlib
import os
import signal
import subprocess
from functools import cache
from pathlib import Path

from walrelay.lab.servers.guardian import Guardian


def watch_process(pid: int, end_with: signal.Signals) -> None:
    """Have `pid` ended with the given signal (SIGKILL after 5 s) when this process is gone."""
    _guardian().watch_process(pid, end_with)


def forget_process(pid: int) -> None:
    """The process was waited for: its pid may belong to someone else from now on."""
    _guardian().forget_process(pid)


def watch_directory(path: Path) -> None:
    """Have the directory deleted when this process is gone."""
    _guardian().watch_directory(path)


@cache
def _guardian() -> Guardian:
    guardian, owner = Guardian(), os.getpid()

    def leave() -> None:
        if os.getpid() == owner:  # a forked child runs our atexit functions too
            with contextlib.suppress(subprocess.TimeoutExpired):
                guardian.close()

    atexit.register(leave)
    return guardian
