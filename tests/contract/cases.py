"""The sinks that the contract is tested on, each with its broker: how to open one, break it and see what arrived."""

import json
import logging
import os
import signal
import threading
from base64 import b64decode
from collections.abc import Mapping
from typing import Any

import pytest

from tests.servers.kafka import KafkaServer
from tests.servers.mock_kafka import MockKafka
from tests.servers.ports import LOOPBACK
from walrelay.model import Message
from walrelay.publish import SeveralSinks, Sink, load
from walrelay.sinks.kafka.plugin import plugin
from walrelay.sinks.kafka.settings import KafkaSettings
from walrelay.sinks.memory import MemorySink
from walrelay.sinks.own_log import SINK_LOG
from walrelay.sinks.stdout import LastLine, StdoutSink
from walrelay.testing import Arrived, Case

KAFKA = pytest.param("kafka", marks=pytest.mark.java)
"""The one of the cases that needs more than Python."""

SLOW = [
    pytest.param(name, marks=pytest.mark.slow)
    for name in ("newest nats", "pubsub", "pulsar", "redis cluster", "servicebus")
]
"""Those with servers that take long to install or to start."""


class MemoryCase:
    """Always has room and never fails; it is tested for the rest of the contract."""

    topic = "any"

    def open(self, *, room: int = 10_000) -> Sink:
        self._sink = MemorySink(keep=100_000)
        return self._sink

    def hold(self) -> None:
        pass

    def release(self) -> None:
        pass

    def arrived(self) -> list[Arrived]:
        return [Arrived(message.key, message.value, message.headers) for message in self._sink.messages]


class ForgettingCase:
    """A sink that keeps nothing. Its log is Python's, at the level that it needs."""

    topic = "any"

    def __init__(self, kind: str) -> None:
        self._plugin = load(kind)
        self._level = SINK_LOG.level
        SINK_LOG.setLevel(logging.INFO)

    def open(self, *, room: int = 10_000) -> Sink:
        return self._plugin.open(self._plugin.settings(), self._plugin.memory())

    def hold(self) -> None:
        pass

    def release(self) -> None:
        pass

    def arrived(self) -> list[Arrived]:
        raise NotImplementedError

    def close(self) -> None:
        SINK_LOG.setLevel(self._level)


class StdoutCase:
    """A pipe with a reader that can stop reading. `room` is the sink's own affair: bytes, not messages."""

    topic = "any"

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        self._last_line = LastLine()
        self._read = bytearray()
        self._going_on = threading.Event()
        self._going_on.set()
        self._thread = threading.Thread(target=self._listen, name="reader", daemon=True)
        self._thread.start()

    def open(self, *, room: int = 10_000) -> Sink:
        return StdoutSink(self._writer, self._last_line)

    def hold(self) -> None:
        self._going_on.clear()

    def release(self) -> None:
        self._going_on.set()

    def arrived(self) -> list[Arrived]:
        """Closes the pipe: nothing can be written afterwards."""
        self.close()
        lines = [json.loads(line) for line in self._read.splitlines()]
        return [Arrived(_bytes(line["key"]), _bytes(line["value"]), _headers(line)) for line in lines]

    def close(self) -> None:
        if self._thread.is_alive():
            self._going_on.set()
            os.close(self._writer)
            self._thread.join(10)
            os.close(self._reader)

    def _listen(self) -> None:
        while True:
            self._going_on.wait()
            if not (data := os.read(self._reader, 4096)):
                return
            self._read += data


class _BrokerCase:
    """A broker in a process of its own, which is held by stopping that."""

    def __init__(self, server: KafkaServer | MockKafka, topic: str) -> None:
        self._server, self.topic = server, topic
        self.memory = plugin.memory()

    def open(self, *, room: int = 10_000, **options: Any) -> Sink:
        address = self._server.bootstrap_servers
        settings = {"bootstrap_servers": address, "max_queued_messages": room, "options": options}
        return plugin.open(KafkaSettings.model_validate(settings), self.memory)

    def hold(self) -> None:
        os.kill(self._server.pid, signal.SIGSTOP)

    def release(self) -> None:
        os.kill(self._server.pid, signal.SIGCONT)

    def arrived(self) -> list[Arrived]:
        return [Arrived(got.key, got.value, got.headers) for got in self._server.read_all(self.topic)]


class KafkaCase(_BrokerCase):
    """Apache Kafka."""

    def __init__(self, broker: KafkaServer, partitions: int = 3, config: Mapping[str, str] | None = None) -> None:
        super().__init__(broker, broker.create_topic(partitions=partitions, config=config))
        self.broker, self.plugin = broker, plugin
        self.server, self.kill, self.start = broker, broker.kill, broker.start

    def at(self, port: int) -> dict[str, Any]:
        return {"bootstrap_servers": f"{LOOPBACK}:{port}"}

    def refused(self, message: Message) -> Message:
        """The client itself refuses what is above its limit."""
        return message._replace(value=(message.value or b"").rjust(2_000_000, b"x"))


class MockCase(_BrokerCase):
    """librdkafka's own broker: what the demo comes with."""

    def __init__(self, mock: MockKafka) -> None:
        super().__init__(mock, "named")
        mock.wait_for_leaders(self.topic, 4)  # which makes it


class SeveralCase:
    """One of several sinks, with another one that gets nothing."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self.topic = f"one:{case.topic}"

    def open(self, *, room: int = 10_000) -> Sink:
        return SeveralSinks({"one": self._case.open(room=room), "other": MemorySink()})

    def hold(self) -> None:
        self._case.hold()

    def release(self) -> None:
        self._case.release()

    def arrived(self) -> list[Arrived]:
        return self._case.arrived()


def _bytes(text: str | dict[str, str] | None) -> bytes | None:
    """Of a line: bytes that are no text are there in base64."""
    if isinstance(text, dict):
        return b64decode(text["base64"])
    return None if text is None else text.encode()


def _headers(line: dict[str, Any]) -> list[tuple[str, bytes | None]]:
    return [(name, _bytes(value)) for name, value in line["headers"]]
