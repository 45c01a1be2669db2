"""A Redis server of the tests' own."""

import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import redis

from tests.servers.ports import LOOPBACK
from tests.servers.process import ServerProcess
from tests.servers.single import SingleServer
from tests.servers.waiting import wait_until


class RedisServer(SingleServer):
    """It keeps nothing on disk, unless `options` of its command line say so."""

    NAME = "Redis"
    PATIENT_WITH = redis.ConnectionError

    def __init__(self, program: Path, *options: str) -> None:
        super().__init__(program)
        self._options = options

    @property
    def url(self) -> str:
        return f"redis://{LOOPBACK}:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def client(self, **options: Any) -> "redis.Redis":
        """Opens connections when it needs them; the caller closes it."""
        return redis.Redis(host=LOOPBACK, port=self.port, **options)

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        assert self._process is not None
        self._process.signal(signal.SIGKILL)
        self._process.wait(10)

    def start(self) -> None:
        """Unless it runs."""
        assert self._process is not None
        if not self._process.running:
            self._process = ServerProcess(
                [self._program, *self._arguments()], log=self._log, cwd=self._home, last_signal=self.LAST_SIGNAL
            )
            wait_until(self._runs_and_answers, 20, "Redis to answer", ignoring=redis.RedisError)

    def _arguments(self) -> Sequence[str | Path]:
        place = ["--bind", LOOPBACK, "--port", str(self.port), "--dir", str(self._home)]
        return [*place, "--save", "", "--appendonly", "no", "--repl-diskless-sync-delay", "0", *self._options]

    def _answers(self) -> bool:
        with redis.Redis.from_url(self.url) as client:
            return bool(client.ping())


class RedisSentinel(RedisServer):
    """Watches that master, and does not take long to give it up. `name`: what it calls it."""

    def __init__(self, program: Path, master: RedisServer, name: str) -> None:
        super().__init__(program)
        self._settings = self._home / "sentinel.conf"  # which it writes to
        self._settings.write_text(
            f"sentinel monitor {name} {LOOPBACK} {master.port} 1\n"
            f"sentinel down-after-milliseconds {name} 300\n"
            f"sentinel failover-timeout {name} 2000\n"
        )

    def _arguments(self) -> Sequence[str | Path]:
        return [self._settings, "--sentinel", "--bind", LOOPBACK, "--port", str(self.port), "--dir", str(self._home)]
