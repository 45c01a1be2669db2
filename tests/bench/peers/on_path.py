"""Peers that are single programs: taken from the PATH, where somebody installed them as their documentation says."""

import shutil
import subprocess
from pathlib import Path

from tests.bench.peers.contract import NotRun


def on_path(program: str) -> Path:
    """Where the program is."""
    found = shutil.which(program)
    if found is None:
        raise NotRun(f"there is no {program} on the PATH")
    return Path(found).absolute()


def answer(*command: str | Path) -> str:
    """What a short command prints, such as a version; NotRun with its words where it fails."""
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        raise NotRun(f"{Path(command[0]).name} failed: {(done.stderr or done.stdout).strip()[-500:]}")
    return done.stdout.strip()
