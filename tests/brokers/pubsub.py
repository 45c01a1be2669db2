"""Pub/Sub: a topic of a fake server."""

import os
import signal
from pathlib import Path
from typing import Any
from uuid import uuid4

from tests.servers.pubsub import PubsubServer
from tests.servers.topics import Received
from tests.servers.waiting import wait_until
from walrelay.model import Message
from walrelay.publish import Sink
from walrelay.sinks.pubsub.plugin import plugin
from walrelay.sinks.pubsub.settings import PubsubSettings
from walrelay.testing import Arrived

PROJECT = "walrelay-tests"


class PubsubCase:
    """A server, and a topic of its own; stopped to hold it."""

    def __init__(self, server: PubsubServer) -> None:
        self.server, self.topic = server, f"test-{uuid4().hex[:12]}"
        self.memory, self.plugin = plugin.memory(), plugin
        self.kill, self.start = server.kill, server.start
        self.make(self.topic)

    @property
    def full_name(self) -> str:
        return full_name(self.topic)

    def make(self, topic: str) -> None:
        """A further topic."""
        with self.server.publisher() as publisher:
            publisher.create_topic(name=full_name(topic))

    def open(self, *, room: int = 10_000, **settings: Any) -> Sink:
        settings = {"endpoint": f"http://{self.server.address}", "max_in_flight": room, **settings}
        return plugin.open(PubsubSettings.model_validate({"project": PROJECT, **settings}), self.memory)

    def at(self, port: int) -> dict[str, Any]:
        return {"project": PROJECT, "endpoint": f"http://127.0.0.1:{port}"}

    def refused(self, message: Message) -> Message:
        """The sink itself refuses an attribute of Google's own."""
        return message._replace(headers=[*message.headers, ("googclient_x", b"1")])

    def hold(self) -> None:
        """Returns when all of its threads have stopped."""
        os.kill(self.server.pid, signal.SIGSTOP)
        threads = Path(f"/proc/{self.server.pid}/task")
        wait_until(lambda: all(_state(each) == "T" for each in threads.iterdir()), 10, "the server to stop")

    def release(self) -> None:
        os.kill(self.server.pid, signal.SIGCONT)

    def arrived(self) -> list[Arrived]:
        return [_arrived(each) for each in self.server.published(self.full_name)]

    def close(self) -> None:
        with self.server.publisher() as publisher:
            publisher.delete_topic(topic=self.full_name)


class PubsubTopic:
    """A topic."""

    def __init__(self, server: PubsubServer) -> None:
        self._server, self.topic = server, f"test-{uuid4().hex[:12]}"
        self.kill, self.start = server.kill, server.start
        with server.publisher() as publisher:
            publisher.create_topic(name=full_name(self.topic))

    @property
    def sink(self) -> dict[str, Any]:
        return {"kind": "pubsub", "project": PROJECT, "endpoint": f"http://{self._server.address}"}

    def read_all(self, *topics: str) -> list[Received]:
        keys: dict[bytes | None, int] = {}
        received: list[Received] = []
        for message in self._server.published(full_name(self.topic)):
            key, value, headers = _arrived(message)
            partition = keys.setdefault(key, len(keys))
            received.append(Received(self.topic, partition, len(received), key, value, headers, 0))
        return received


def opened(memory: Any = None, **settings: Any) -> Sink:
    made = plugin.settings.model_validate({"project": PROJECT, **settings})
    return plugin.open(made, memory or plugin.memory())


def numbered(number: int, key: bytes | None = b"a", topic: str = "orders", size: int = 0) -> Message:
    headers: list[tuple[str, bytes | None]] = [("id", b"%d" % number), ("position", b"0/1:0")]
    return Message(topic, key, b"%d" % number + b" " * size, headers, 0)


def findings(endpoint: str, *topics: str, **settings: Any) -> list[tuple[str, str]]:
    """What the doctor finds: verdicts and details."""
    made = PubsubSettings.model_validate({"project": PROJECT, "endpoint": endpoint, **settings})
    return [(each.verdict, each.detail) for each in plugin.examine(made, topics)]


def full_name(topic: str) -> str:
    return f"projects/{PROJECT}/topics/{topic}"


def _state(thread: Path) -> str:
    return (thread / "stat").read_text().rpartition(")")[2].split()[0]


def _arrived(message: Any) -> Arrived:
    headers: list[tuple[str, bytes | None]] = [(name, value.encode()) for name, value in message.attributes.items()]
    return Arrived(message.ordering_key.encode() or None, message.data, sorted(headers))
