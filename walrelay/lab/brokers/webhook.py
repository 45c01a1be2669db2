"""A receiver of webhooks as a broker: it answers 204 once it has written a request to a file."""

import socket
import sys
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from walrelay.lab.brokers import webhook_receiver
from walrelay.lab.brokers.contract import ReadMessage, until
from walrelay.lab.brokers.file import LinesConsumer, count_lines
from walrelay.lab.servers.backstage import LOOPBACK, Backstage, free_port


class LabWebhook:
    name, version = "a receiver of webhooks of its own", ""

    def __init__(self, backstage: Backstage) -> None:
        self._file, self._port = backstage.directory("webhook") / "requests", free_port()
        program = Path(webhook_receiver.__file__)
        self._child = backstage.start("the receiver", [sys.executable, program, str(self._port), self._file])

    @property
    def environment(self) -> Mapping[str, str]:
        return {}

    def ready(self) -> None:
        until(self._child, self._answers)

    def sink(self, topic: str) -> Mapping[str, Any]:
        return {"kind": "webhook", "url": f"http://{LOOPBACK}:{self._port}/{{topic}}", "allow_private_addresses": True}

    @contextmanager
    def topic(self, name: str, complain: Callable[[str], None]) -> Iterator[None]:
        self._file.write_bytes(b"")  # the receiver appends
        yield

    def consumer(self, topic: str) -> LinesConsumer:
        return LinesConsumer(self._file, _message)

    def held(self, topic: str) -> int:
        return count_lines(self._file)

    def _answers(self) -> bool:
        with socket.create_connection((LOOPBACK, self._port), 1):
            return True


def _message(request: Mapping[str, Any]) -> ReadMessage:
    headers = {name.lower(): b64decode(value).decode() for name, value in request["headers"]}
    return ReadMessage(headers["id"], headers["key"], b64decode(request["body"]))
