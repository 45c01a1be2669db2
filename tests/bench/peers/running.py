"""A peer's process: started, watched, ended in good order or by kill -9, and what it wrote last."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import time

from tests.bench.peers.contract import Command
from tests.bench.peers.processes import Sampler
from tests.servers import reaper

_PATIENCE = 20.0
_LAST_LINES = 20
_LAST_BYTES = 20_000


class Running:
    """One run of a command, in a session of its own, with its output appended to a file."""

    def __init__(self, command: Command, log: Path) -> None:
        self.began = time()
        with log.open("ab") as output:
            self._child = subprocess.Popen(
                [str(part) for part in command.argv],
                cwd=command.directory,
                env={**os.environ, **command.environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        reaper.watch_process(self._child.pid, signal.SIGTERM)
        self.sampler = Sampler(self._child.pid)

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._child.poll()

    def kill(self) -> float:
        """SIGKILL to all of it at once, while it is sampled. Returns when it was dead."""
        self._kill()
        self._child.wait(_PATIENCE)
        return time()

    def end(self) -> None:
        """SIGTERM to the process that was started; what is left after a while, or of its children, is killed.

        Called when it is not sampled any more.
        """
        if self.exit_code is None:
            self._child.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._child.wait(_PATIENCE)
        self.sampler.tree.look()
        self._kill()
        self._child.wait(_PATIENCE)
        reaper.forget_process(self._child.pid)

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._child.pid, signal.SIGKILL)
        for pid in self.sampler.tree.pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@contextmanager
def running(command: Command, log: Path) -> Iterator[Running]:
    """Runs the command, sampled, for the length of the block."""
    run = Running(command, log)
    try:
        with run.sampler:
            yield run
    finally:
        run.end()


def last_lines(log: Path) -> str:
    """What a peer wrote last."""
    if not log.exists():
        return ""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _LAST_BYTES))
        lines = file.read().decode(errors="replace").splitlines()
    return "\n".join(lines[-_LAST_LINES:])
