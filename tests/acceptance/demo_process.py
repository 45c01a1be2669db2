"""`walrelay demo`, or a benchmark, as a person starts it, and everything that it left behind."""

import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

from tests.servers.waiting import wait_until


class DemoProcess:
    """In a session of its own, as on a terminal: `interrupt` reaches its whole foreground process group.

    Its processes are known by a variable in their environment, which children inherit, whoever their parent is now.
    """

    def __init__(self, *arguments: str, terminal: bool = False, command: Sequence[str] = ("demo",)) -> None:
        self._mark = f"WALRELAY_TEST={uuid.uuid4().hex}"
        # Short, because a Unix socket's path is, and open to the account that PostgreSQL runs as under root.
        self._temporary = Path(tempfile.mkdtemp(prefix="demo-test-", dir="/tmp"))
        self._temporary.chmod(0o755)
        name, _, value = self._mark.partition("=")
        self._output, writing_end = pty.openpty() if terminal else os.pipe()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "walrelay", *command, *arguments],
            env={**os.environ, name: value, "TMPDIR": str(self._temporary), "TERM": "xterm", "COLUMNS": "100"},
            stdout=writing_end,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        os.close(writing_end)
        self.stdout = self.stderr = ""

    def ended(self, timeout: float = 60) -> int:
        """Its exit code; what it wrote is in stdout and stderr."""
        self._read(lambda: False, timeout)
        _, self.stderr = self.process.communicate(timeout=timeout)
        return self.process.returncode

    def wait_for_words(self, words: str) -> None:
        """Until they are on stdout."""
        self._read(lambda: words in self.stdout, 60)
        assert words in self.stdout, self.process.communicate()

    def shown_within(self, seconds: float) -> str:
        """What comes on stdout in that time."""
        before = len(self.stdout)
        self._read(lambda: False, seconds)
        return self.stdout[before:]

    def wait_for_child(self, words: str) -> int:
        """The pid of a process of the demo with these words in its command line."""
        return wait_until(lambda: self._pids(words), 120, f"a child {words!r}", interval=0.002)[0]

    def interrupt(self, number: signal.Signals = signal.SIGINT) -> None:
        os.killpg(self.process.pid, number)

    def directory(self, name: str) -> Path:
        """That of one of its servers."""
        (found,) = self._temporary.glob(f"walrelay-*/{name}")
        return found

    @property
    def left_behind(self) -> list[str]:
        """Command lines of its processes, and files in its temporary directory."""
        return [command for _, command in self._processes()] + [path.name for path in self._temporary.iterdir()]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()
        os.close(self._output)
        wait_until(lambda: not self.left_behind, 15, "the demo's guardian to tidy up")
        shutil.rmtree(self._temporary)

    def _read(self, enough: Callable[[], bool], timeout: float) -> None:
        """Until it is enough, or the end."""
        deadline = time.monotonic() + timeout
        while not enough() and (remaining := deadline - time.monotonic()) > 0:
            if select.select([self._output], [], [], remaining)[0]:
                try:
                    text = os.read(self._output, 65536)
                except OSError:  # the end, of a terminal
                    return
                if not text:
                    return
                self.stdout += text.decode(errors="replace")

    def _pids(self, words: str) -> list[int]:
        return [pid for pid, command in self._processes() if words in command]

    def _processes(self) -> list[tuple[int, str]]:
        found = []
        for directory in Path("/proc").glob("[0-9]*"):
            try:
                if self._mark.encode() in (directory / "environ").read_bytes().split(b"\0"):
                    command = (directory / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                    found.append((int(directory.name), command))
            except OSError:
                continue  # gone, or someone else's
        return found
