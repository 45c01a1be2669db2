"""A NATS server with JetStream, of the tests' own."""

import socket
from collections.abc import Sequence
from pathlib import Path

from tests.servers.ports import LOOPBACK
from tests.servers.single import SingleServer


class NatsServer(SingleServer):
    """JetStream is ready before a client is greeted."""

    NAME = "NATS"
    PATIENT_WITH = OSError

    @property
    def url(self) -> str:
        return f"nats://{LOOPBACK}:{self.port}"

    def _arguments(self) -> Sequence[str | Path]:
        return ["--addr", LOOPBACK, "--port", str(self.port), "--jetstream", "--store_dir", self._home / "data"]

    def _answers(self) -> bool:
        with socket.create_connection((LOOPBACK, self.port), 1) as client:
            return client.recv(4) == b"INFO"
