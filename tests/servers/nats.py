"""A NATS server with JetStream, of the tests' own."""

import shutil
import signal
import socket
from pathlib import Path
from typing import Self

from tests.servers.ports import LOOPBACK, free_port
from tests.servers.process import ServerProcess, temporary_directory
from tests.servers.waiting import wait_until


class NatsServer:
    """Runs from when it is entered."""

    def __init__(self, program: Path) -> None:
        self.port = free_port()
        self.url = f"nats://{LOOPBACK}:{self.port}"
        self._program = program
        self._home = temporary_directory("nats")
        self._log = self._home / "log"
        self._process: ServerProcess | None = None

    def __enter__(self) -> Self:
        options: list[str | Path] = ["--addr", LOOPBACK, "--port", str(self.port), "--jetstream", "--store_dir"]
        self._process = ServerProcess(
            [self._program, *options, self._home / "data"], log=self._log, cwd=self._home, last_signal=signal.SIGKILL
        )
        wait_until(self._answers, 10, "NATS to answer", ignoring=OSError)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        self._process.signal(signal.SIGKILL)
        self._process.wait(10)
        shutil.rmtree(self._home, ignore_errors=True)

    def _answers(self) -> bool:
        """JetStream is ready before a client is greeted."""
        assert self._process is not None
        if not self._process.running:
            raise RuntimeError(f"NATS ended while starting:\n{self._log.read_text()}")
        with socket.create_connection((LOOPBACK, self.port), 1) as client:
            return client.recv(4) == b"INFO"
