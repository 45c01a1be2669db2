"""A Redis server of the tests' own."""

from collections.abc import Sequence
from pathlib import Path

import redis

from tests.servers.ports import LOOPBACK
from tests.servers.single import SingleServer


class RedisServer(SingleServer):
    """It keeps nothing on disk."""

    NAME = "Redis"
    PATIENT_WITH = redis.ConnectionError

    @property
    def url(self) -> str:
        return f"redis://{LOOPBACK}:{self.port}"

    def _arguments(self) -> Sequence[str | Path]:
        return ["--bind", LOOPBACK, "--port", str(self.port), "--save", "", "--appendonly", "no"]

    def _answers(self) -> bool:
        with redis.Redis.from_url(self.url) as client:
            return bool(client.ping())
