"""Redis: a stream of a server."""

import os
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import redis

from tests.servers.certificates import Authority
from tests.servers.ports import LOOPBACK, free_port
from tests.servers.redis import RedisServer
from tests.servers.topics import Received
from tests.servers.waiting import wait_until
from walrelay.model import Message
from walrelay.publish import Sink
from walrelay.sinks.redis.plugin import plugin
from walrelay.sinks.redis.settings import RedisSettings
from walrelay.testing import Arrived

Fields = list[tuple[bytes, bytes]]


class RedisCase:
    """Redis, and a stream of its own; stopped to hold it."""

    def __init__(self, server: RedisServer) -> None:
        self.server, self.topic = server, f"test-{uuid4().hex[:12]}"
        self.memory, self.plugin = plugin.memory(), plugin
        self.kill, self.start = server.kill, server.start
        self.client = server.client()

    def open(self, *, room: int = 10_000, **settings: Any) -> Sink:
        return plugin.open(self.settings(max_in_flight=room, **settings), self.memory)

    def settings(self, **settings: Any) -> RedisSettings:
        return RedisSettings.model_validate({"url": self.server.url, **settings})

    def at(self, port: int) -> dict[str, Any]:
        return {"url": self.server.url.replace(f":{self.server.port}", f":{port}")}

    def refused(self, message: Message) -> Message:
        """The sink itself refuses a header without a value."""
        return message._replace(headers=[*message.headers, ("none", None)])

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
    """The fields of each entry."""
    return [fields for _, fields in timed_entries(client, stream)]


def timed_entries(client: "redis.Redis", stream: str) -> list[tuple[tuple[int, ...], Fields]]:
    """With their times; the client's own way to read them loses a name that is there twice."""
    client.response_callbacks.pop("XRANGE", None)
    found: Any = client.execute_command("XRANGE", stream, "-", "+")  # type: ignore[no-untyped-call]
    return [
        (tuple(int(part) for part in number.split(b"-")), [*zip(fields[::2], fields[1::2], strict=True)])
        for number, fields in found
    ]


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


class RedisLogins(RedisCase):
    """By password, and over TLS with certificates of both sides, where the server wants one."""

    secrets = ("secret", "wrong")

    def __init__(self, start: Callable[..., RedisServer], directory: Path) -> None:
        authority = Authority(directory)
        (its, its_key), (mine, my_key) = authority.sign("server"), authority.sign("relay")
        port, trusted = free_port(), str(authority.certificate)
        options = {"port": port, "cert-file": its, "key-file": its_key, "ca-cert-file": trusted}
        super().__init__(start(*(str(each) for name, value in options.items() for each in (f"--tls-{name}", value))))
        own = {"certificate_file": str(mine), "key_file": str(my_key)}
        self._encrypted: dict[str, Any] = {"url": f"rediss://localhost:{port}", "ca_file": trusted, **own}
        self._as_user = user(self, "~*", "+@all")

    def logins(self) -> dict[str, Callable[[], Sink]]:
        return {"password": partial(self.open, url=self._as_user), "certificate": partial(self.open, **self._encrypted)}

    def strangers(self) -> dict[str, Callable[[], Sink]]:
        trusting = {name: self._encrypted[name] for name in ("url", "ca_file")}
        return {
            "wrong password": partial(self.open, url=self._as_user.replace("secret", "wrong")),
            "no certificate": partial(self.open, **trusting),
            "unknown authority": partial(self.open, **self._encrypted | {"ca_file": None}),
            "no file": partial(self.open, **trusting | {"ca_file": "/none.crt"}),
        }
