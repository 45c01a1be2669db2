"""NATS JetStream: a stream of a server."""

import asyncio
import json
import os
import signal
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar
from uuid import uuid4

import nats as nats_py
from nats.aio.client import Client

from tests.servers.nats import NatsServer
from tests.servers.topics import Received
from walrelay.model import Message
from walrelay.publish import Sink
from walrelay.sinks.nats.plugin import plugin
from walrelay.sinks.nats.settings import NatsSettings
from walrelay.testing import Arrived

T = TypeVar("T")
_OWN = ("Nats-Msg-Id", "Nats-Expected-Stream", "Nats-Expected-Last-Msg-Id")


class NatsCase:
    """NATS, and a stream of its own with one subject; stopped to hold it."""

    def __init__(self, server: NatsServer, **stream: Any) -> None:
        self.server, self.topic = server, f"test-{uuid4().hex[:12]}"
        self.memory, self.plugin = plugin.memory(), plugin
        self.kill, self.start = server.kill, server.start
        self.make(self.topic, self.topic, **stream)

    def make(self, stream: str, *subjects: str, **members: Any) -> None:
        """A further stream."""
        request(self.server.url, f"STREAM.CREATE.{stream}", name=stream, subjects=subjects, **members)

    def open(self, *, room: int = 10_000, **settings: Any) -> Sink:
        settings = {"url": self.server.url, "max_in_flight": room, **settings}
        return plugin.open(NatsSettings.model_validate(settings), self.memory)

    def at(self, port: int) -> dict[str, Any]:
        return {"url": self.server.url.replace(f":{self.server.port}", f":{port}")}

    def refused(self, message: Message) -> Message:
        """The sink itself refuses a header that NATS would obey."""
        return message._replace(headers=[*message.headers, ("Nats-Rollup", b"all")])

    def hold(self) -> None:
        os.kill(self.server.pid, signal.SIGSTOP)

    def release(self) -> None:
        os.kill(self.server.pid, signal.SIGCONT)

    def arrived(self) -> list[Arrived]:
        found = []
        for _, data, headers in stored(self.server.url, self.topic):
            named = {name: value.encode() for name, value in headers.items() if name not in _OWN}
            found.append(Arrived(named.pop("key", None), data, [*named.items()]))
        return found

    def close(self) -> None:
        request(self.server.url, f"STREAM.DELETE.{self.topic}")


class NatsStream:
    """A stream with the subject of the same name."""

    def __init__(self, server: NatsServer) -> None:
        self._server, self.topic = server, f"test-{uuid4().hex[:12]}"
        self.kill, self.start = server.kill, server.start
        request(server.url, f"STREAM.CREATE.{self.topic}", name=self.topic, subjects=[self.topic])

    @property
    def sink(self) -> dict[str, Any]:
        return {"kind": "nats", "url": self._server.url}

    def read_all(self, *topics: str) -> list[Received]:
        keys: dict[str, int] = {}
        received = []
        for number, (_, data, headers) in enumerate(stored(self._server.url, self.topic)):
            named: list[tuple[str, bytes | None]] = [(name, value.encode()) for name, value in headers.items()]
            key = headers["key"]
            received.append(Received(self.topic, keys.setdefault(key, len(keys)), number, key.encode(), data, named, 0))
        return received


class NatsOwnStream(NatsStream):
    """One that nobody else writes to."""

    @property
    def sink(self) -> dict[str, Any]:
        return {**super().sink, "stream": self.topic}


def with_client(url: str, work: Callable[[Client], Awaitable[T]], **options: Any) -> T:
    """What the work with a client returned."""

    async def run() -> T:
        client = await nats_py.connect(url, connect_timeout=20, **options)
        try:
            return await work(client)
        finally:
            await client.close()

    return asyncio.run(run())


def request(url: str, what: str, *, inbox: str = "_INBOX", patience: float = 20, **members: Any) -> dict[str, Any]:
    """The answer of JetStream's API; AssertionError for an error, TimeoutError for none in so many seconds. `inbox`:
    what the answer is sent to begins with.
    """

    async def ask(client: Client) -> dict[str, Any]:
        answer = await client.request(f"$JS.API.{what}", json.dumps(members).encode(), timeout=patience)
        found: dict[str, Any] = json.loads(answer.data)
        assert "error" not in found, found["error"]
        return found

    return with_client(url, ask, inbox_prefix=inbox)


def stored(url: str, stream: str) -> list[tuple[str, bytes, dict[str, str]]]:
    """Subject, payload and headers of all messages of the stream, in its order."""

    async def read(client: Client) -> list[tuple[str, bytes, dict[str, str]]]:
        jetstream = client.jetstream(timeout=20)
        count = (await jetstream.stream_info(stream)).state.messages
        if not count:
            return []
        subscription = await jetstream.subscribe(">", stream=stream, ordered_consumer=True)
        messages = [await subscription.next_msg(timeout=20) for _ in range(count)]
        return [(each.subject, each.data, each.headers or {}) for each in messages]

    return with_client(url, read)
