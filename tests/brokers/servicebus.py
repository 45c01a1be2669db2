"""Azure Service Bus, as a peer of the tests' own plays it: an entity of its own."""

import os
import signal
from typing import Any
from uuid import uuid4

from tests.servers.servicebus import ServicebusPeer, Stored
from tests.servers.topics import Received
from walrelay.model import Message
from walrelay.publish import Sink
from walrelay.sinks.servicebus.plugin import plugin
from walrelay.sinks.servicebus.settings import ServicebusSettings
from walrelay.testing import Arrived


class ServicebusCase:
    """The peer, and an entity of its own; stopped to hold it."""

    def __init__(self, server: ServicebusPeer) -> None:
        self.server, self.topic = server, f"test-{uuid4().hex[:12]}"
        self.memory, self.plugin = plugin.memory(), plugin
        self.kill, self.start = server.kill, server.start

    def open(self, *, room: int = 10_000, **settings: Any) -> Sink:
        if "namespace" not in settings:
            settings = {"connection_string": self.server.connection_string(), **settings}
        return plugin.open(ServicebusSettings.model_validate({"max_in_flight": room, **settings}), self.memory)

    def at(self, port: int) -> dict[str, Any]:
        return {"connection_string": self.server.connection_string(port=port)}

    def refused(self, message: Message) -> Message:
        """The peer rejects the batch that it is in, as for a session id that is missing."""
        no = {"id": "bad", "what": "reject", "condition": "amqp:not-allowed", "text": "No."}
        self.server.rule(self.topic, messages=[no])
        return message._replace(headers=[("id", b"bad"), *message.headers[1:]])

    def hold(self) -> None:
        os.kill(self.server.pid, signal.SIGSTOP)

    def release(self) -> None:
        os.kill(self.server.pid, signal.SIGCONT)

    def stored(self) -> list[Stored]:
        return self.server.stored(self.topic)

    def arrived(self) -> list[Arrived]:
        return [Arrived(_key(each), each.body, each.properties) for each in self.stored()]

    def close(self) -> None:
        """The peer is kind again; it keeps what it has until it ends."""
        self.server.rules.clear()
        self.server.rule("*")


class ServicebusEntity:
    """An entity of the peer."""

    def __init__(self, server: ServicebusPeer) -> None:
        self._server, self.topic = server, f"test-{uuid4().hex[:12]}"
        self.kill, self.start = server.kill, server.start

    @property
    def sink(self) -> dict[str, Any]:
        return {"kind": "servicebus", "connection_string": self._server.connection_string()}

    def stored(self) -> list[Stored]:
        return self._server.stored(self.topic)

    def read_all(self, *topics: str) -> list[Received]:
        keys: dict[bytes | None, int] = {}
        received: list[Received] = []
        for each in self.stored():
            key = _key(each)
            partition = keys.setdefault(key, len(keys))
            received.append(Received(self.topic, partition, len(received), key, each.body, each.properties, 0))
        return received


def _key(stored: Stored) -> bytes | None:
    return None if stored.session_id is None else stored.session_id.encode()
