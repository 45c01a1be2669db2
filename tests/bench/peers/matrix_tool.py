"""A tool under a supervisor: whenever it ends by itself it is started again, which is noted."""

import threading
from pathlib import Path
from time import time
from types import TracebackType
from typing import NamedTuple, Self

from tests.bench.peers.contract import Command
from tests.bench.peers.running import Running

PAUSE = 1.0
"""Seconds from its end to the next start."""

_LOOK_EVERY = 0.05


class Exit(NamedTuple):
    """An end of its own."""

    at: float  # Unix time
    code: int


class Tool:
    """Runs from __enter__ to __exit__. `log` has what all its processes wrote."""

    def __init__(self, command: Command, log: Path) -> None:
        self.log = log
        self.exits: list[Exit] = []
        self._command = command
        self._lock = threading.Lock()
        self._run: Running | None = None
        self._wanted = False
        self._halt = threading.Event()
        self._thread = threading.Thread(target=self._supervise, name="supervisor", daemon=True)

    def start(self) -> None:
        """Again, after kill()."""
        with self._lock:
            self._wanted, self._run = True, Running(self._command, self.log)

    def kill(self) -> None:
        """SIGKILL. It is not started again before start()."""
        with self._lock:
            self._wanted, run, self._run = False, self._run, None
        if run is not None:
            run.kill()
            run.end()

    def says(self) -> str:
        """All that it wrote."""
        return self.log.read_text(errors="replace")

    def __enter__(self) -> Self:
        self.start()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._halt.set()
        self._thread.join()
        if self._run is not None:
            self._run.end()

    def _supervise(self) -> None:
        while not self._halt.wait(_LOOK_EVERY):
            with self._lock:
                if self._run is not None and self._run.exit_code is not None:
                    self._note_exit(self._run, self._run.exit_code)
                elif self._run is None and self._wanted and time() > self.exits[-1].at + PAUSE:
                    self._run = Running(self._command, self.log)

    def _note_exit(self, run: Running, code: int) -> None:
        self.exits.append(Exit(time(), code))
        run.end()
        self._run = None
