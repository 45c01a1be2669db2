"""A Redis server of the tests' own."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import redis

from tests.servers.ports import LOOPBACK
from tests.servers.single import SingleServer
from walrelay.lab.servers.installed import redis_answers, redis_arguments


class RedisServer(SingleServer):
    """It keeps nothing on disk, unless `options` of its command line say so."""

    NAME = "Redis"
    PATIENT_WITH = OSError

    def __init__(self, program: Path, *options: str) -> None:
        super().__init__(program)
        self._options = options

    @property
    def url(self) -> str:
        return f"redis://{LOOPBACK}:{self.port}"

    def client(self, **options: Any) -> "redis.Redis":
        """Opens connections when it needs them; the caller closes it."""
        return redis.Redis(host=LOOPBACK, port=self.port, **options)

    def _arguments(self) -> Sequence[str | Path]:
        return [*redis_arguments(self.port, self._home), "--repl-diskless-sync-delay", "0", *self._options]

    def _answers(self) -> bool:
        return redis_answers(self.port)


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
