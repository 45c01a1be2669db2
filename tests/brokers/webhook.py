"""Webhooks: a path of a receiver."""

import os
import signal
from typing import Any
from uuid import uuid4

from tests.servers.ports import LOOPBACK
from tests.servers.topics import Received
from tests.servers.webhook import Request, WebhookReceiver
from walrelay.model import Message
from walrelay.publish import Sink
from walrelay.sinks.webhook.plugin import plugin
from walrelay.sinks.webhook.settings import WebhookSettings
from walrelay.testing import Arrived

_HTTP = {"host", "content-length", "content-type", "user-agent", "accept", "webhook-id", "webhook-timestamp"}


class WebhookCase:
    """A receiver, and a path of its own; stopped to hold it."""

    def __init__(self, server: WebhookReceiver) -> None:
        self.server, self.topic = server, f"test-{uuid4().hex[:12]}"
        self.memory, self.plugin = plugin.memory(), plugin
        self.kill, self.start = server.kill, server.start

    def open(self, *, room: int = 10_000, **settings: Any) -> Sink:
        settings = {
            "url": f"{self.server.url}/{{topic}}",
            "max_in_flight": room,
            "allow_private_addresses": True,
            **settings,
        }
        return plugin.open(WebhookSettings.model_validate(settings), self.memory)

    def at(self, port: int) -> dict[str, Any]:
        return {"url": f"http://{LOOPBACK}:{port}/{{topic}}", "allow_private_addresses": True}

    def refused(self, message: Message) -> Message:
        """The sink itself refuses a header that is HTTP's."""
        return message._replace(headers=[*message.headers, ("Content-Length", b"1")])

    def hold(self) -> None:
        os.kill(self.server.pid, signal.SIGSTOP)

    def release(self) -> None:
        os.kill(self.server.pid, signal.SIGCONT)

    def arrived(self) -> list[Arrived]:
        return [arrived_in(request) for request in self.server.requests(f"/{self.topic}")]

    def close(self) -> None:
        """The receiver keeps its requests until it ends."""


class WebhookPath:
    """A path of a receiver."""

    def __init__(self, server: WebhookReceiver) -> None:
        self._server, self.topic = server, f"test-{uuid4().hex[:12]}"
        self.kill, self.start = server.kill, server.start

    @property
    def sink(self) -> dict[str, Any]:
        return {"kind": "webhook", "url": f"{self._server.url}/{{topic}}", "allow_private_addresses": True}

    def read_all(self, *topics: str) -> list[Received]:
        keys: dict[bytes | None, int] = {}
        received: list[Received] = []
        for request in self._server.requests(f"/{self.topic}"):
            key, value, headers = arrived_in(request)
            partition = keys.setdefault(key, len(keys))
            received.append(Received(self.topic, partition, len(received), key, value, headers, 0))
        return received


def arrived_in(request: Request) -> Arrived:
    """Without what is HTTP's own."""
    headers: list[tuple[str, bytes | None]] = [
        (name, value) for name, value in request.headers if name.lower() not in _HTTP and name != "key"
    ]
    return Arrived(next((value for name, value in request.headers if name == "key"), None), request.body, headers)
