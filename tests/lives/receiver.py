"""A broker with faults: HTTP endpoints, a place for each topic, that keep a journal of what they stored."""

import json
import socket
from contextlib import suppress
from threading import Event, Lock, Thread
from time import monotonic
from typing import NamedTuple
from urllib.parse import unquote

FAULTS = ("down", "busy", "silent", "unanswered", "late", "failing")
"""Of an endpoint: it closes each connection; it answers 503; it reads and says nothing; it stores and hangs up; it
stores and answers after a while; it answers 500.
"""
_LATE = 0.3  # seconds


class Stored(NamedTuple):
    """A message in the journal. `n`: the number of its row; `replayed`: it says that it was published again."""

    sink: str
    topic: str
    key: str
    n: int
    replayed: bool
    at: float


class Receiver:
    """Takes the messages of all sinks; the first part of a path is the name of the sink, the second the topic."""

    def __init__(self) -> None:
        self.journal: list[Stored] = []
        self.faults: dict[str, str] = {}
        self.poisoned: set[str] = set()
        self._lock, self._over = Lock(), Event()
        self._changed = Event()
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self._listening.getsockname()[1]
        Thread(target=self._accept, daemon=True).start()

    def begin(self) -> None:
        """Another life."""
        with self._lock:
            self.journal = []
        self.faults, self.poisoned = {}, {"a", "b"}
        self._changed.set()
        self._changed = Event()

    def fault(self, sink: str, fault: str) -> None:
        """Empty: it is well."""
        self.faults[sink] = fault
        self._changed.set()
        self._changed = Event()

    def close(self) -> None:
        self._over.set()
        self._changed.set()
        self._listening.close()

    def _accept(self) -> None:
        while not self._over.is_set():
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError, EOFError):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            read = b""
            while not self._over.is_set():
                while b"\r\n\r\n" not in read:
                    read += self._more(connection)
                head, _, read = read.partition(b"\r\n\r\n")
                first, *lines = head.decode("latin-1").split("\r\n")
                headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
                length = int(headers.get("content-length", 0))
                while len(read) < length:
                    read += self._more(connection)
                body, read = read[:length], read[length:]
                if not self._answer(connection, first.split()[1], headers, body):
                    return

    def _more(self, connection: socket.socket) -> bytes:
        found = connection.recv(65536)
        if not found:
            raise EOFError
        return found

    def _answer(self, connection: socket.socket, path: str, headers: dict[str, str], body: bytes) -> bool:
        """Whether the connection goes on."""
        _, sink, topic = (unquote(part) for part in path.split("/", 2))
        fault, changed = self.faults.get(sink, ""), self._changed
        if fault == "down":
            return False
        if fault == "silent":
            changed.wait(60)
            return False
        if fault in ("busy", "failing"):
            return _say(connection, "503 Busy" if fault == "busy" else "500 Failing")
        content = json.loads(body)
        if sink in content.get("poison", "") and sink in self.poisoned:
            return _say(connection, "422 Poison")
        stored = Stored(sink, topic, headers.get("key", ""), content["n"], "replayed" in headers, monotonic())
        with self._lock:
            self.journal.append(stored)
        if fault == "unanswered":
            return False
        if fault == "late":
            changed.wait(_LATE)
        return _say(connection, "204 Stored")


def _say(connection: socket.socket, status: str) -> bool:
    length = "" if status.startswith("204") else "content-length: 0\r\n"
    connection.sendall(f"HTTP/1.1 {status}\r\n{length}\r\n".encode())
    return True
