"""Programs that give credentials (`credential_process`): each has an end, and none outlives what it was started for.

botocore waits for such a program without a limit, and keeps no handle on it.
"""

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import botocore.credentials

T = TypeVar("T")

_here = threading.local()
"""`programs`: for which the thread works."""


class CredentialPrograms:
    """Those of a sink, or of a question of the doctor."""

    def __init__(self, patience: float) -> None:
        self._patience = patience  # seconds
        self._lock = threading.Lock()
        self._running: set[_CredentialProgram] = set()
        self._over = False

    def within(self, work: Callable[..., T], *args: Any) -> T:
        """Does the work in this thread; programs that botocore starts in it are of these."""
        _here.programs = self
        try:
            return work(*args)
        finally:
            del _here.programs

    def answer_of(self, program: "_CredentialProgram") -> tuple[bytes, bytes]:
        """What it writes until it ends, or is ended."""
        with self._lock:
            self._running.add(program)
            if self._over:
                program.end()
        try:
            return program.written(self._patience)
        except subprocess.TimeoutExpired:
            program.end()
            program.wait()
            return b"", f"the program has given none for {self._patience:g} s, and was ended".encode()
        finally:
            with self._lock:
                self._running.discard(program)

    def end(self) -> None:
        """None runs afterwards, and none that is started later runs for long."""
        with self._lock:
            self._over = True
            for program in self._running:
                program.end()


class _CredentialProgram(subprocess.Popen[bytes]):
    """In a session of its own, so that what it has started ends with it."""

    def __init__(self, command: Sequence[str], *, stdout: int, stderr: int) -> None:
        super().__init__(command, stdout=stdout, stderr=stderr, start_new_session=True)

    def communicate(self, *_: Any, **__: Any) -> tuple[bytes, bytes]:
        programs: CredentialPrograms | None = getattr(_here, "programs", None)
        return super().communicate() if programs is None else programs.answer_of(self)

    def written(self, timeout: float) -> tuple[bytes, bytes]:
        return super().communicate(timeout=timeout)

    def end(self) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)


class _ProcessProvider(botocore.credentials.ProcessProvider):  # type: ignore[misc]
    def __init__(self, profile_name: str, load_config: Any, popen: Any = _CredentialProgram) -> None:
        super().__init__(profile_name, load_config, popen)


botocore.credentials.ProcessProvider = _ProcessProvider
"""botocore makes providers by this name only, also those of the profiles that others name as their source."""
