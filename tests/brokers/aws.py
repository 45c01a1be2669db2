"""AWS, as moto has it: places of its services."""

import os
import signal
from base64 import b64decode
from typing import Any
from uuid import uuid4

from tests.servers.aws import CREDENTIALS, REGION, MotoServer
from tests.servers.topics import Received
from walrelay.publish import Sink, SinkPlugin
from walrelay.sinks.aws.sqs.plugin import plugin as sqs
from walrelay.testing import Arrived


class AwsCase:
    """A place of its own at a service; the server is stopped to hold it."""

    plugin: SinkPlugin
    settings: dict[str, Any] = {}  # noqa: RUF012
    suffix = ""

    def __init__(self, server: MotoServer) -> None:
        self.server, self.topic = server, f"test-{uuid4().hex[:12]}{self.suffix}"
        self.memory = self.plugin.memory()
        self.make()

    def make(self) -> None:
        """The place."""
        raise NotImplementedError

    def open(self, *, room: int = 10_000, **settings: Any) -> Sink:
        settings = {**access(self.server), **self.settings, "max_in_flight": room, **settings}
        return self.plugin.open(self.plugin.settings.model_validate(settings), self.memory)

    def hold(self) -> None:
        os.kill(self.server.pid, signal.SIGSTOP)

    def release(self) -> None:
        os.kill(self.server.pid, signal.SIGCONT)

    def arrived(self) -> list[Arrived]:
        return [of_queue(each) for each in self.server.arrived(self.topic)]

    def close(self) -> None:
        """The server keeps what it got until it ends."""


class SqsCase(AwsCase):
    """A FIFO queue."""

    plugin, suffix = sqs, ".fifo"

    def make(self) -> None:
        self.server.sqs.create_queue(QueueName=self.topic, Attributes={"FifoQueue": "true"})


class AwsPlace:
    """A case as relays of the acceptance tests see it. After a kill the place is made again."""

    def __init__(self, case: AwsCase, kind: str) -> None:
        self._case, self._kind, self.topic = case, kind, case.topic
        self.kill = case.server.kill

    def start(self) -> None:
        self._case.server.start()
        self._case.make()

    @property
    def sink(self) -> dict[str, Any]:
        return {"kind": self._kind, **access(self._case.server), **self._case.settings}

    def read_all(self, *topics: str) -> list[Received]:
        keys: dict[bytes | None, int] = {}
        return [
            Received(self.topic, keys.setdefault(each.key, len(keys)), number, each.key, each.value, each.headers, 0)
            for number, each in enumerate(self._case.arrived())
        ]


def access(server: MotoServer) -> dict[str, Any]:
    """The settings by which a relay finds it."""
    return {"endpoint_url": server.url, "region": REGION, **CREDENTIALS}


def of_queue(read: dict[str, Any]) -> Arrived:
    """A line of the journal. moto has the values of binary attributes in base64."""
    headers: dict[str, bytes | None] = {}
    for name, each in read["attributes"].items():
        binary = each.get("binary_value", each.get("BinaryValue"))
        text = each.get("string_value", each.get("StringValue"))
        headers[name] = text.encode() if text else b64decode(binary)
    key = headers.pop("key", None)
    return Arrived(key, read["body"].encode(), [*headers.items()])
