"""Brokers as the tests of every sink see them: the settings of their sink, what arrived, and how they die."""

from typing import Any, Protocol
from uuid import uuid4

import pika

from tests.servers.rabbitmq import RabbitmqServer
from tests.servers.topics import Received


class Broker(Protocol):
    """A place in a broker of its own. `topic`: its name."""

    topic: str

    @property
    def sink(self) -> dict[str, Any]:
        """The section of the settings."""
        ...

    def read_all(self, *topics: str) -> list[Received]:
        """Every message; a key is a partition of its own where the broker has none. May be called once."""
        ...

    def kill(self) -> None: ...

    def start(self) -> None: ...


class RabbitmqQueue:
    """A quorum queue."""

    def __init__(self, server: RabbitmqServer) -> None:
        self._server, self.topic = server, f"test-{uuid4().hex[:12]}"
        self.kill, self.start = server.kill, server.start
        connection = self._connect()
        connection.channel().queue_declare(self.topic, durable=True, arguments={"x-queue-type": "quorum"})
        connection.close()

    @property
    def sink(self) -> dict[str, Any]:
        return {"kind": "rabbitmq", "url": self._server.url}

    def read_all(self, *topics: str) -> list[Received]:
        keys: dict[str, int] = {}
        received: list[Received] = []
        connection = self._connect()
        channel = connection.channel()
        while (got := channel.basic_get(self.topic, auto_ack=True))[0] is not None:
            _, properties, body = got
            key = properties.headers["key"]
            headers: list[tuple[str, bytes | None]] = [
                (name, value.encode()) for name, value in properties.headers.items() if isinstance(value, str)
            ]
            partition = keys.setdefault(key, len(keys))
            received.append(Received(self.topic, partition, len(received), key.encode(), body, headers, 0))
        connection.close()
        return received

    def _connect(self) -> Any:
        return pika.BlockingConnection(pika.URLParameters(self._server.url))
