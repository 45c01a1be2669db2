"""Redis: a stream."""

from collections.abc import Iterable
from typing import Any

import redis as redis_py

from walrelay.lab.brokers.contract import ReadMessage, ServedBroker, messages, until
from walrelay.lab.servers.backstage import LOOPBACK, free_port
from walrelay.lab.servers.installed import redis_answers, redis_arguments, redis_program
from walrelay.sinks.redis.plugin import plugin

_MOMENT_MS = 50
_AT_ONCE = 500  # messages


class LabRedis(ServedBroker):
    """One of its own writes what it got to disk once a second, as most servers do."""

    KIND, TITLE, PLUGIN = "redis", "Redis", plugin

    def consumer(self, topic: str) -> "EntriesConsumer":
        return EntriesConsumer(_client(self._address), topic)

    def held(self, topic: str) -> int:
        with _client(self._address) as client:
            return int(client.xlen(topic))

    def _begin(self) -> str:
        program, directory, self._port = redis_program(), self._backstage.directory("redis"), free_port()
        on_disk = ("--appendonly", "yes", "--appendfsync", "everysec")
        self._child = self._backstage.start("Redis", [program, *redis_arguments(self._port, directory), *on_disk])
        return f"redis://{LOOPBACK}:{self._port}"

    def _until_ready(self) -> str:
        until(self._child, lambda: redis_answers(self._port))
        return self._address

    def _version(self) -> str:
        with _client(self._address) as client:
            return str(client.info("server")["redis_version"])

    def _remove(self, topic: str) -> None:
        with _client(self._address) as client:
            client.delete(topic)


class EntriesConsumer:
    def __init__(self, client: Any, stream: str) -> None:
        self._client, self._stream, self._last = client, stream, b"0-0"

    def receive(self) -> Iterable[ReadMessage]:
        answer = self._client.xread({self._stream: self._last}, count=_AT_ONCE, block=_MOMENT_MS)
        # A list of pairs by the older protocol, a mapping by the newer.
        streams = answer.values() if isinstance(answer, dict) else [entries for _, entries in answer or ()]
        entries = [entry for found in streams for entry in _flat(found)]
        if entries:
            self._last = entries[-1][0]
        return messages(
            ({name.decode(): value for name, value in fields.items()}, fields[b"payload"]) for _, fields in entries
        )

    def close(self) -> None:
        self._client.close()


def _flat(found: Any) -> list[Any]:
    return found[0] if found and isinstance(found[0], list) else found


def _client(url: str) -> Any:
    return redis_py.Redis.from_url(url.split(",")[0])
