"""Receivers of webhooks: one in a process of its own, which keeps what it got, and one that answers as a test says."""

import json
import shutil
import signal
import socket
import ssl
import sys
from base64 import b64decode
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from typing import NamedTuple, Self

from tests.servers.ports import LOOPBACK, free_port
from tests.servers.process import ServerProcess, temporary_directory
from tests.servers.waiting import wait_until
from walrelay.lab.brokers import webhook_receiver


class Request(NamedTuple):
    """As it arrived. Names of headers are as they were written."""

    path: str
    headers: list[tuple[str, bytes]]
    body: bytes

    def header(self, name: str) -> str | None:
        return next((value.decode() for each, value in self.headers if each.lower() == name), None)


class WebhookReceiver:
    """Runs from when it is entered; answers every request with 204. Each path is a place of its own."""

    def __init__(self) -> None:
        self.port = free_port()
        self.url = f"http://{LOOPBACK}:{self.port}"
        self._home = temporary_directory("webhook")
        self._file = self._home / "requests"
        self._process: ServerProcess | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def start(self) -> None:
        """Unless it runs. What it got before it was killed is still there."""
        if self._process is None or not self._process.running:
            program = Path(webhook_receiver.__file__)
            self._process = ServerProcess(
                [sys.executable, program, str(self.port), self._file],
                log=self._home / "log",
                cwd=self._home,
                last_signal=signal.SIGKILL,
            )
            wait_until(self._answers, 30, "the receiver to listen", ignoring=OSError)

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        assert self._process is not None
        self._process.signal(signal.SIGKILL)
        self._process.wait(10)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def requests(self, path: str) -> list[Request]:
        """What came to that path, in the order of arrival."""
        found = []
        for line in self._file.read_bytes().splitlines():
            read = json.loads(line)
            if read["path"] == path:
                headers = [(name, b64decode(value)) for name, value in read["headers"]]
                found.append(Request(path, headers, b64decode(read["body"])))
        return found

    def __exit__(self, *_: object) -> None:
        if self._process is not None and self._process.running:
            self.kill()
        shutil.rmtree(self._home, ignore_errors=True)

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.running, (self._home / "log").read_text()
        socket.create_connection((LOOPBACK, self.port), 1).close()
        return True


Behaviour = Callable[["Conversation"], None]
"""What a server does on each connection, in a thread of its own; the connection is closed when it returns."""


class Conversation:
    """A connection as its server sees it."""

    def __init__(self, connection: socket.socket, server: "Endpoint") -> None:
        self._connection, self._server = connection, server
        self._read = b""

    def request(self) -> Request:
        """The next one, complete. EOFError when the client is gone."""
        self.head()
        head, _, self._read = self._read.partition(b"\r\n\r\n")
        first, *lines = head.split(b"\r\n")
        headers = [(name.decode(), value) for name, _, value in (line.partition(b": ") for line in lines)]
        length = int({name.lower(): value for name, value in headers}.get("content-length", 0))
        while len(self._read) < length:
            self._more()
        body, self._read = self._read[:length], self._read[length:]
        request = Request(first.split()[1].decode(), headers, body)
        self._server.requests.append(request)
        return request

    def head(self) -> None:
        """Reads until the head of the next one is there, and a little more."""
        while b"\r\n\r\n" not in self._read:
            self._more()

    def say(self, text: str | bytes) -> None:
        """OSError when the client is gone."""
        self._connection.sendall(text.encode() if isinstance(text, str) else text)

    def until_the_end(self) -> None:
        """Waits until the test is over."""
        self._server.over.wait()

    def wait(self, seconds: float) -> bool:
        """Whether the test is over within that time."""
        return self._server.over.wait(seconds)

    def _more(self) -> None:
        read = self._connection.recv(65536)
        if not read:
            raise EOFError
        self._read += read


class Endpoint:
    """A server in the test's process, on a port of its own. `behaves` may be changed: for connections that come later,
    or for the next request of a conversation that asks for it.
    """

    def __init__(self, behaves: Behaviour, context: ssl.SSLContext | None = None) -> None:
        self.behaves, self._context = behaves, context
        self.requests: list[Request] = []
        self.over = Event()
        self._listener = socket.create_server((LOOPBACK, 0), backlog=100)
        self.port: int = self._listener.getsockname()[1]
        self.url = f"{'https' if context else 'http'}://{LOOPBACK}:{self.port}/hook"
        self.connections = 0
        self._open: list[socket.socket] = []
        self._threads = [Thread(target=self._accept)]
        self._threads[0].start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        for each in (self._listener, *self._open):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        for thread in self._threads:
            thread.join(10)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._open.append(connection)
            thread = Thread(target=self._converse, args=[connection])
            self._threads.append(thread)
            thread.start()

    def _converse(self, connection: socket.socket) -> None:
        try:
            if self._context is not None:
                connection = self._context.wrap_socket(connection, server_side=True)
                self._open.append(connection)
            self.behaves(Conversation(connection, self))
        except (OSError, EOFError):
            return  # the client is gone
        finally:
            connection.close()


def response(status: str = "200 OK", *headers: str, body: str = "") -> str:
    """In full, `status` with its phrase."""
    return "\r\n".join((f"HTTP/1.1 {status}", f"Content-Length: {len(body.encode())}", *headers, "", body))


def answering(*answers: str) -> Behaviour:
    """Answers with these, one after the other over all connections, the last again and again."""
    left = iter_last(answers)

    def behave(conversation: Conversation) -> None:
        while True:
            conversation.request()
            conversation.say(next(left))

    return behave


def iter_last(answers: tuple[str, ...]) -> Iterator[str]:
    yield from answers
    while True:
        yield answers[-1]
