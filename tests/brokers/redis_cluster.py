"""Redis Cluster: streams of one topic, for each key one, in several hash slots."""

import os
import signal
from collections.abc import Callable
from typing import Any
from uuid import uuid4

from tests.brokers.redis import arrived, timed_entries
from tests.servers.redis_cluster import RedisCluster
from tests.servers.topics import Received
from walrelay.model import Message
from walrelay.publish import Sink
from walrelay.sinks.redis.plugin import plugin
from walrelay.sinks.redis.settings import RedisSettings
from walrelay.testing import Arrived

STREAM = "{topic}-{key}"


class RedisClusterCase:
    """A cluster, and a topic of its own; its servers are stopped to hold it."""

    def __init__(self, server: RedisCluster) -> None:
        self.server, self.topic = server, f"test-{uuid4().hex[:12]}"
        self.memory, self.plugin = plugin.memory(), plugin
        self.kill, self.start = server.kill, server.start

    def open(self, *, room: int = 10_000, **settings: Any) -> Sink:
        return plugin.open(self.settings(max_in_flight=room, **settings), self.memory)

    def settings(self, **settings: Any) -> RedisSettings:
        return RedisSettings.model_validate({**self.at(self.server.port), "url": self.server.url, **settings})

    def at(self, port: int) -> dict[str, Any]:
        return {"url": f"redis://127.0.0.1:{port}", "cluster": True, "stream": STREAM}

    def refused(self, message: Message) -> Message:
        """The sink itself refuses a header without a value."""
        return message._replace(headers=[*message.headers, ("none", None)])

    def stream(self, key: str) -> str:
        return f"{self.topic}-{key}"

    def hold(self) -> None:
        for node in self.server.nodes:
            os.kill(node.pid, signal.SIGSTOP)

    def release(self) -> None:
        for node in self.server.nodes:
            os.kill(node.pid, signal.SIGCONT)

    def arrived(self) -> list[Arrived]:
        return [arrived(fields) for fields in entries_of_topic(self.server, self.topic)]

    def close(self) -> None:
        for node in self.server.nodes:
            if node.running and node.is_master:
                node.ask("FLUSHALL")


def entries_of_topic(server: RedisCluster, topic: str) -> list[list[tuple[bytes, bytes]]]:
    """Of all its streams, by their times."""
    found = []
    for node in server.nodes:
        if node.running and node.is_master:
            with node.client() as client:
                for stream in client.keys(f"*{topic}-*"):  # a hash tag may come first
                    found += timed_entries(client, stream.decode())
    return [fields for _, fields in sorted(found, key=lambda each: each[0])]


class RedisClusterStreams:
    """Streams of a cluster, one for each key. `settings`: more of the sink's."""

    def __init__(self, server: RedisCluster, **settings: Any) -> None:
        self.server, self.topic = server, f"test-{uuid4().hex[:12]}"
        self.kill: Callable[[], None] = server.kill
        self.start: Callable[[], None] = server.start
        self._settings = {"stream": STREAM, **settings}

    @property
    def sink(self) -> dict[str, Any]:
        return {"kind": "redis", "url": self.server.url, "cluster": True, **self._settings}

    def read_all(self, *topics: str) -> list[Received]:
        keys: dict[bytes | None, int] = {}
        return [
            Received(self.topic, keys.setdefault(got.key, len(keys)), number, got.key, got.value, got.headers, 0)
            for number, got in enumerate(map(arrived, entries_of_topic(self.server, self.topic)))
        ]
