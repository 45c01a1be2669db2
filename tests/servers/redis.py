"""A Redis server of the tests' own."""

import shutil
import signal
from pathlib import Path
from typing import Self

import redis

from tests.servers.ports import LOOPBACK, free_port
from tests.servers.process import ServerProcess, temporary_directory
from tests.servers.waiting import wait_until


class RedisServer:
    """Runs from when it is entered, and keeps nothing on disk."""

    def __init__(self, program: Path) -> None:
        self.port = free_port()
        self.url = f"redis://{LOOPBACK}:{self.port}"
        self._program = program
        self._home = temporary_directory("redis")
        self._log = self._home / "log"
        self._process: ServerProcess | None = None

    def __enter__(self) -> Self:
        options = ("--bind", LOOPBACK, "--port", str(self.port), "--save", "", "--appendonly", "no")
        self._process = ServerProcess(
            [self._program, *options], log=self._log, cwd=self._home, last_signal=signal.SIGKILL
        )
        wait_until(self._answers, 10, "Redis to answer", ignoring=redis.ConnectionError)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        self._process.signal(signal.SIGKILL)
        self._process.wait(10)
        shutil.rmtree(self._home, ignore_errors=True)

    def _answers(self) -> bool:
        assert self._process is not None
        if not self._process.running:
            raise RuntimeError(f"Redis ended while starting:\n{self._log.read_text()}")
        with redis.Redis.from_url(self.url) as client:
            return bool(client.ping())
