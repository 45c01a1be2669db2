"""RabbitMQ: a queue of a node."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from uuid import uuid4

import pika

from tests.servers.ports import LOOPBACK
from tests.servers.rabbitmq import RabbitmqServer
from tests.servers.topics import Received
from walrelay.model import Message
from walrelay.publish import Sink
from walrelay.sinks.rabbitmq.plugin import plugin
from walrelay.sinks.rabbitmq.settings import RabbitmqSettings
from walrelay.testing import Arrived


class RabbitmqCase:
    """RabbitMQ, and a queue of its own; stopped to hold it."""

    def __init__(self, server: RabbitmqServer, **queue: Any) -> None:
        self.server, self.topic = server, f"test-{uuid4().hex[:12]}"
        self.memory, self.plugin = plugin.memory(), plugin
        self.kill, self.start = server.kill, server.start
        with self.client() as client:
            client.queue_declare(self.topic, durable=True, arguments=queue or None)

    def open(self, *, room: int = 10_000, **settings: Any) -> Sink:
        settings = {"url": self.server.url, "max_in_flight": room, **settings}
        return plugin.open(RabbitmqSettings.model_validate(settings), self.memory)

    def at(self, port: int) -> dict[str, Any]:
        return {"url": f"amqp://guest:guest@{LOOPBACK}:{port}/"}

    def refused(self, message: Message) -> Message:
        """The sink itself refuses a header that RabbitMQ would obey."""
        return message._replace(headers=[*message.headers, ("CC", b"elsewhere")])

    def hold(self) -> None:
        os.kill(self.server.pid, signal.SIGSTOP)

    def release(self) -> None:
        os.kill(self.server.pid, signal.SIGCONT)

    def arrived(self) -> list[Arrived]:
        arrived = []
        with self.client() as client:
            while (got := client.basic_get(self.topic, auto_ack=True))[0] is not None:
                headers = {
                    name: value.encode() if isinstance(value, str) else value for name, value in got[1].headers.items()
                }
                arrived.append(Arrived(headers.pop("key", None), got[2], [*headers.items()]))
        return arrived

    def properties(self) -> Any:
        """Those of the first message."""
        with self.client() as client:
            return client.basic_get(self.topic, auto_ack=True)[1]

    def cut_connections(self) -> None:
        """As a network does that forgets them."""
        self.server.control("close_all_connections", "cut by the test")

    def close(self) -> None:
        with self.client() as client:
            client.queue_delete(self.topic)

    @contextmanager
    def client(self) -> Iterator[Any]:
        """A channel."""
        connection = pika.BlockingConnection(pika.URLParameters(self.server.url))
        try:
            yield connection.channel()
        finally:
            connection.close()


class RabbitmqQueue:
    """A quorum queue."""

    arguments: dict[str, Any] = {"x-queue-type": "quorum"}  # noqa: RUF012

    def __init__(self, server: RabbitmqServer) -> None:
        self._server, self.topic = server, f"test-{uuid4().hex[:12]}"
        self.kill, self.start = server.kill, server.start
        connection = self._connect()
        connection.channel().queue_declare(self.topic, durable=True, arguments=self.arguments)
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
            key = properties.headers.get("key", "")
            headers: list[tuple[str, bytes | None]] = [
                (name, value.encode()) for name, value in properties.headers.items() if isinstance(value, str)
            ]
            partition = keys.setdefault(key, len(keys))
            received.append(Received(self.topic, partition, len(received), key.encode(), body, headers, 0))
        connection.close()
        return received

    def bind(self, exchange: str, kind: str, routing_key: str) -> None:
        """Makes an exchange that leads to the queue."""
        connection = self._connect()
        channel = connection.channel()
        channel.exchange_declare(exchange, kind, durable=True)
        channel.queue_bind(self.topic, exchange, routing_key)
        connection.close()

    def properties(self) -> list[Any]:
        """Those of every message, which goes back into the queue."""
        connection = self._connect()
        channel, found = connection.channel(), []
        while (got := channel.basic_get(self.topic))[0] is not None:
            found.append(got[1])
        connection.close()
        return found

    def _connect(self) -> Any:
        return pika.BlockingConnection(pika.URLParameters(self._server.url))


class RabbitmqLogins(RabbitmqCase):
    """By password, and over TLS with certificates of both sides, where the server wants one."""

    secrets = ("guest:guest", "wrong")

    def logins(self) -> dict[str, Callable[[], Sink]]:
        return {"password": self.open, "certificate": partial(self.open, **self._encrypted)}

    def strangers(self) -> dict[str, Callable[[], Sink]]:
        trusting = {name: self._encrypted[name] for name in ("url", "ca_file")}
        return {
            "wrong password": partial(self.open, url=self.server.url.replace("guest:guest", "guest:wrong")),
            "no certificate": partial(self.open, **trusting),
            "unknown authority": partial(self.open, **self._encrypted | {"ca_file": None}),
            "no file": partial(self.open, **trusting | {"ca_file": "/none.crt"}),
        }

    @property
    def _encrypted(self) -> dict[str, Any]:
        authority = self.server.authority
        certificate, key = authority.sign("relay")
        files = {"certificate_file": str(certificate), "key_file": str(key)}
        return {"url": self.server.tls_url, "ca_file": str(authority.certificate), **files}
