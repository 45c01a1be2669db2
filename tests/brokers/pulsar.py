"""Pulsar: a partitioned topic of a server."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any
from urllib.error import HTTPError
from uuid import uuid4

import pulsar as client_library

from tests.servers.ports import LOOPBACK
from tests.servers.pulsar import PulsarServer
from tests.servers.topics import Received
from tests.servers.waiting import wait_until
from walrelay.model import Message
from walrelay.publish import Sink
from walrelay.sinks.pulsar.plugin import plugin
from walrelay.sinks.pulsar.settings import PulsarSettings
from walrelay.testing import Arrived

PUBLIC = "persistent://public/default/"


class PulsarCase:
    """Pulsar, and a topic of its own, with partitions unless there are to be none; stopped to hold it."""

    def __init__(self, server: PulsarServer, partitions: int = 3, namespace: str = "public/default") -> None:
        self.server, self.topic = server, f"test-{uuid4().hex[:12]}"
        self.namespace, self.address = namespace, f"persistent://{namespace}/{self.topic}"
        self.memory, self.plugin = plugin.memory(), plugin
        self.kill, self.start = server.kill, server.start
        make(server, self.address, partitions)

    def open(self, *, room: int = 10_000, **settings: Any) -> Sink:
        return plugin.open(self.settings(max_in_flight=room, **settings), self.memory)

    def at(self, port: int) -> dict[str, Any]:
        return {"url": f"pulsar://{LOOPBACK}:{port}"}

    def refused(self, message: Message) -> Message:
        """The sink itself refuses a header that Pulsar cannot have."""
        return message._replace(headers=[*message.headers, ("a", None)])

    def settings(self, **settings: Any) -> PulsarSettings:
        own = {"url": self.server.url, "topic": f"persistent://{self.namespace}/{{topic}}"}
        return PulsarSettings.model_validate({**own, **settings})

    def hold(self) -> None:
        os.kill(self.server.pid, signal.SIGSTOP)

    def release(self) -> None:
        os.kill(self.server.pid, signal.SIGCONT)

    def arrived(self, address: str | None = None) -> list[Arrived]:
        return [_arrived(got) for got in read(self.server, address or self.address)]

    def close(self) -> None:
        """The server's namespaces end with it."""


class PulsarTopic:
    """A topic with partitions; its namespace recognises repetitions within a run."""

    def __init__(self, server: PulsarServer) -> None:
        self._server, self.topic = server, f"test-{uuid4().hex[:12]}"
        self.kill, self.start = server.kill, server.start
        make(server, PUBLIC + self.topic, 3)

    @property
    def sink(self) -> dict[str, Any]:
        """It waits for a server that starts slowly on a busy machine."""
        return {"kind": "pulsar", "url": self._server.url, "request_timeout": 120}

    def read_all(self, *topics: str) -> list[Received]:
        keys: dict[bytes | None, int] = {}
        received: list[Received] = []
        for got in read(self._server, PUBLIC + self.topic):
            key, value, headers = _arrived(got)
            partition = keys.setdefault(key, len(keys))
            received.append(Received(self.topic, partition, len(received), key, value, headers, got.event_timestamp()))
        return received


def make(server: PulsarServer, address: str, partitions: int) -> None:
    """A topic; 0: without partitions."""
    path = address.replace("://", "/")

    def made() -> bool:
        try:
            server.admin("PUT", *((f"{path}/partitions", partitions) if partitions else (path,)))
        except HTTPError as error:
            if error.code == HTTPStatus.CONFLICT:
                return True  # an answer before said that it failed, and it did not
            if error.code < HTTPStatus.INTERNAL_SERVER_ERROR:
                raise
            return False  # bookies that were held, or just began, are faulty for a while
        return True

    wait_until(made, 60, f"{address} to be made")


def make_namespace(server: PulsarServer, **policies: Any) -> str:
    """A namespace of the tenant public, and its name."""
    name = f"public/test-{uuid4().hex[:12]}"
    server.admin("PUT", f"namespaces/{name}", policies)
    return name


def make_tenant(server: PulsarServer) -> str:
    """With a namespace `events`; its name."""
    name = f"test-{uuid4().hex[:12]}"
    server.admin("PUT", f"tenants/{name}", {"adminRoles": [], "allowedClusters": ["standalone"]})
    server.admin("PUT", f"namespaces/{name}/events", {})
    return name


def read(server: PulsarServer, address: str) -> list[Any]:
    """Every message that is there, each partition's in their order."""
    found = []
    with client(server) as made:
        for partition in made.get_topic_partitions(address):
            reader = made.create_reader(partition, client_library.MessageId.earliest)
            while reader.has_message_available():
                found.append(reader.read_next(20_000))
            reader.close()
    return found


@contextmanager
def client(server: PulsarServer) -> Iterator[Any]:
    """The library's own, for tests."""
    quiet = client_library.FileLogger(client_library.LoggerLevel.Error, os.devnull)
    made = client_library.Client(server.url, logger=quiet, operation_timeout_seconds=30)
    try:
        yield made
    finally:
        made.close()


def _arrived(got: Any) -> Arrived:
    headers: list[tuple[str, bytes | None]] = [(name, value.encode()) for name, value in got.properties().items()]
    return Arrived(got.partition_key().encode(), got.data(), headers)
