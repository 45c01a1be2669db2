"""Redis: a stream of a server."""

import os
import signal
from typing import Any
from uuid import uuid4

import redis

from tests.servers.ports import LOOPBACK
from tests.servers.redis import RedisServer
from tests.servers.topics import Received
from tests.servers.waiting import wait_until
from walrelay.publish import Sink
from walrelay.sinks.redis.plugin import plugin
from walrelay.sinks.redis.settings import RedisSettings
from walrelay.testing import Arrived

Fields = list[tuple[bytes, bytes]]


class RedisCase:
    """Redis, and a stream of its own; stopped to hold it."""

    def __init__(self, server: RedisServer) -> None:
        self.server, self.topic = server, f"test-{uuid4().hex[:12]}"
        self.memory = plugin.memory()
        self.client = server.client()

    def open(self, *, room: int = 10_000, **settings: Any) -> Sink:
        return plugin.open(self.settings(max_in_flight=room, **settings), self.memory)

    def settings(self, **settings: Any) -> RedisSettings:
        return RedisSettings.model_validate({"url": self.server.url, **settings})

    def hold(self) -> None:
        os.kill(self.server.pid, signal.SIGSTOP)

    def release(self) -> None:
        os.kill(self.server.pid, signal.SIGCONT)

    def arrived(self, stream: str | None = None) -> list[Arrived]:
        return [arrived(fields) for fields in entries(self.client, stream or self.topic)]

    def close(self) -> None:
        self.client.flushall()
        self.client.close()


def entries(client: "redis.Redis", stream: str) -> list[Fields]:
    """The fields of each entry; the client's own way to read them loses a name that is there twice."""
    client.response_callbacks.pop("XRANGE", None)
    found: Any = client.execute_command("XRANGE", stream, "-", "+")  # type: ignore[no-untyped-call]
    return [[*zip(fields[::2], fields[1::2], strict=True)] for _, fields in found]


def arrived(fields: Fields) -> Arrived:
    headers: list[tuple[str, bytes | None]] = [
        (name.decode(), value) for name, value in fields if name not in (b"key", b"payload")
    ]
    own = dict(fields)
    return Arrived(own.get(b"key"), own.get(b"payload"), headers)


class RedisStream:
    """A stream of a server that writes to disk before it answers."""

    def __init__(self, server: RedisServer) -> None:
        self._server, self.topic = server, f"test-{uuid4().hex[:12]}"
        self.kill, self.start, self.client = server.kill, server.start, server.client

    @property
    def sink(self) -> dict[str, Any]:
        return {"kind": "redis", "url": self._server.url}

    def read_all(self, *topics: str) -> list[Received]:
        with self._server.client() as client:
            all_of_them = [arrived(fields) for fields in entries(client, self.topic)]
        return [
            Received(self.topic, 0, number, got.key, got.value, got.headers, 0)
            for number, got in enumerate(all_of_them)
        ]


def replicate(replica: Any, master: RedisServer) -> None:
    """Returns when the server of that client has the data of the master."""
    replica.replicaof(LOOPBACK, master.port)
    wait_until(lambda: replica.info("replication")["master_link_status"] == "up", 20, "the replica to follow")


def user(case: RedisCase, *rights: str) -> str:
    """The address for a user who has no other rights."""
    case.client.execute_command(  # type: ignore[no-untyped-call]
        "ACL", "SETUSER", "relay", "reset", "on", ">secret", *rights
    )
    return case.server.url.replace("//", "//relay:secret@")
