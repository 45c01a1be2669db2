"""What Redis is asked before a message is durable: WAIT for replicas, WAITAOF for append-only files as well."""

from typing import Any

from redis.exceptions import ResponseError

from walrelay.errors import Retryable, SinkError
from walrelay.sinks.redis.client import Client, answered
from walrelay.sinks.redis.settings import RedisSettings

_AGAIN_MS = 500  # after which a WAIT is asked again
_AOF_AGAIN_MS = 2_000  # with `appendfsync everysec` an answer takes up to a second, and that is no trouble


class Wait:
    """Until all that a connection wrote, and what was written before that, is where the settings want it."""

    def __init__(self, settings: RedisSettings) -> None:
        self._replicas, self._aof = settings.wait_replicas, settings.wait_aof
        self.wanted = self._aof or self._replicas > 0
        self.command: tuple[str, ...] = ("WAIT", str(self._replicas), str(_AGAIN_MS))
        if self._aof:
            self.command = ("WAITAOF", "1", str(self._replicas), str(_AOF_AGAIN_MS))

    def lacking(self, answer: Any) -> str:
        """What is missing, by Redis's answer to `command`; empty if nothing is."""
        on_disk, have = (int(answer[0]), int(answer[1])) if self._aof else (1, int(answer))
        if not on_disk:
            return "what was published last is not in Redis's append-only file on disk yet"
        if have < self._replicas:
            where = " on disk" if self._aof else ""
            return f"of Redis's replicas {have} have what was published last{where}, and {self._replicas} should"
        return ""


async def check_append_only_file(client: Client) -> None:
    """For `wait_aof`, before anything is published: else a message would be added that never becomes durable, by each
    run again. Fatal where the server or the user cannot ask for it, Retryable where there is no such file now.
    """
    try:
        await client.ask("WAITAOF", "1", "0", "1")
    except ResponseError as why:
        said = answered(why)
        if "unknown command" in said:
            version = client.info.get("redis_version", "of a version that it does not tell")
            raise SinkError(
                f"{client.address} is Redis {version}, which has no WAITAOF, and sink.wait_aof is set",
                hint="Use Redis 7.2 or later, or Valkey. Or leave sink.wait_aof out, and set appendfsync always there.",
            ) from why
        if said.startswith("NOPERM"):
            raise SinkError(
                f"the user may not ask {client.address} for WAITAOF, and sink.wait_aof is set: {said}",
                hint="Grant +waitaof.",
            ) from why
        if "appendonly" in said:
            raise Retryable(
                "Redis writes no append-only file, and sink.wait_aof waits for it: CONFIG SET appendonly yes"
            ) from why
        raise
