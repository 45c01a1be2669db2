"""A peer of the tests' own that stands for Azure Service Bus: what its own emulator needs is a container engine.

It knows what a client that sends can meet: tokens, links, batches, and every cruelty that a rule asks for. It knows
nothing of subscriptions, locks and sessions, and whether it is like the real one is not tested.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
from base64 import b64decode
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Self

from tests.servers.certificates import Authority
from tests.servers.choose import Missing
from tests.servers.ports import LOOPBACK, free_port
from tests.servers.process import ServerProcess, temporary_directory
from tests.servers.waiting import wait_until

_PYTHON = Path("/usr/bin/python3")
_PROGRAM = Path(__file__).with_name("amqp_peer.py")
_KEY = "secret"


class Stored(NamedTuple):
    """A message as an entity has it. `transfer`: those of a batch came with the same."""

    message_id: str | None
    session_id: str | None
    subject: str | None
    correlation_id: str | None
    content_type: str | None
    properties: list[tuple[str, bytes | None]]
    body: bytes
    transfer: int
    connection: int


@cache
def python_with_proton() -> Path:
    """Debian's, because qpid-proton has no wheel; Missing where its package is not installed."""
    if _PYTHON.exists() and subprocess.run([_PYTHON, "-c", "import proton"], capture_output=True).returncode == 0:
        return _PYTHON
    raise Missing("python3-qpid-proton is not installed")


class ServicebusPeer:
    """Runs from when it is entered. Every name is an entity, unless a rule says otherwise.

    `address`: where it also listens with TLS, at Service Bus's own port.
    """

    def __init__(self, python: Path, address: str = "") -> None:
        self.port, self._python, self.address = free_port(), python, address
        self._home = temporary_directory("servicebus")
        self._file, self._rules_file, self._log = (self._home / name for name in ("messages", "rules", "log"))
        self._file.touch()
        self.rules: dict[str, Any] = {}
        self.rule("*")
        self._process: ServerProcess | None = None

    def __enter__(self) -> Self:
        if self.address:
            self.authority = Authority(self._home)
            self._certificate, self._certificate_key = self.authority.sign("peer", self.address)
        self.start()
        return self

    def start(self) -> None:
        """Unless it runs. What it accepted before it was killed is still there."""
        if self._process is None or not self._process.running:
            tls: list[str | Path] = []
            if self.address:
                tls = [f"{self.address}:5671", self._certificate, self._certificate_key]
            self._process = ServerProcess(
                [self._python, _PROGRAM, str(self.port), self._home, *tls],
                log=self._log,
                cwd=self._home,
                last_signal=signal.SIGKILL,
            )
            wait_until(self._answers, 30, "the peer to listen", ignoring=OSError)

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        assert self._process is not None
        self._process.signal(signal.SIGKILL)
        self._process.wait(10)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def connection_string(self, *, port: int | None = None, key: str = _KEY) -> str:
        """As that of Microsoft's emulator: without TLS, and with a port."""
        return (
            f"Endpoint=sb://{LOOPBACK}:{port or self.port};SharedAccessKeyName=Root;SharedAccessKey={key};"
            "UseDevelopmentEmulator=true;"
        )

    def rule(self, entity: str, **rule: Any) -> None:
        """How it is from now on to what is sent to that entity, "*": to all; without arguments kind again."""
        self.rules[entity] = rule
        new = self._rules_file.with_suffix(".new")
        new.write_text(json.dumps(self.rules))
        os.replace(new, self._rules_file)

    def stored(self, entity: str) -> list[Stored]:
        """What that entity accepted, in order."""
        found = []
        for read in self._lines():
            if read.get("entity") == entity:
                properties = [(name, _bytes(value)) for name, value in read["properties"]]
                body = _bytes(read["body"]) or b""
                known = {name: read[name] for name in Stored._fields if name in read}
                found.append(Stored(**{**known, "properties": properties, "body": body}))
        return found

    def tokens(self) -> list[tuple[str, str]]:
        """The kind of each token that it was shown, and the token."""
        return [(read["cbs"], read["token"]) for read in self._lines() if "cbs" in read]

    def __exit__(self, *_: object) -> None:
        if self._process is not None and self._process.running:
            self.kill()
        shutil.rmtree(self._home, ignore_errors=True)

    def _lines(self) -> list[dict[str, Any]]:
        *whole, _ = self._file.read_bytes().split(b"\n")
        return [json.loads(line) for line in whole]

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.running, self._log.read_text()
        for place in [(LOOPBACK, self.port), *([(self.address, 5671)] if self.address else [])]:
            socket.create_connection(place, 1).close()
        return True


def _bytes(value: str | dict[str, str] | None) -> bytes | None:
    if isinstance(value, dict):
        return b64decode(value["base64"])
    return None if value is None else value.encode()
