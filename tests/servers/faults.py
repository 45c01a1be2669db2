"""PostgreSQL's protocol with a fault at one call: the server fails, or the connection breaks, at the n-th statement."""

import contextlib
import socket
import struct
import threading
from typing import NamedTuple, Self

from tests.servers.ports import LOOPBACK

_SSL, _GSS, _CANCEL = 80877103, 80877104, 80877102
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class Fault(NamedTuple):
    """`call`: which statement (from 1 on) of all connections together meets it, and with `lasting` all after it too.
    `sqlstate`: the error that the server answers; empty: the connection is reset.
    """

    call: int
    sqlstate: str = ""
    lasting: bool = False

    def hits(self, call: int) -> bool:
        return call == self.call or (self.lasting and call > self.call)


class FaultyPostgres:
    """Listens at `port` in front of the server at `target`, until close(). A statement is a simple query or a Parse."""

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self._listener = socket.create_server((LOOPBACK, 0))
        self.port: int = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._fault = Fault(0)
        self.calls = 0
        self._sockets: set[socket.socket] = set()
        self._threads = [threading.Thread(target=self._accept, name="faulty", daemon=True)]
        self._threads[0].start()

    def arm(self, fault: Fault) -> None:
        """From now on statements are counted from zero, and one meets this fault."""
        with self._lock:
            self._fault, self.calls = fault, 0

    @property
    def struck(self) -> bool:
        """Whether the call was reached."""
        return 0 < self._fault.call <= self.calls

    def close(self) -> None:
        with self._lock:
            sockets = [*self._sockets]
        for each in (self._listener, *sockets):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        for thread in self._threads:
            thread.join(5)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._serve, args=(client,), name="faulty link", daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, client: socket.socket) -> None:
        server = socket.create_connection(self._target)
        with self._lock:
            self._sockets |= {client, server}
        try:
            if not self._start(client, server):
                return
            back = threading.Thread(target=self._back, args=(server, client), name="faulty answers", daemon=True)
            back.start()
            self._forth(client, server)
        except (OSError, EOFError):
            pass
        finally:
            for each in (client, server):
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
                each.close()
            with self._lock:
                self._sockets -= {client, server}

    def _start(self, client: socket.socket, server: socket.socket) -> bool:
        """Whether a session begins: requests for encryption are declined, and a cancellation is passed on."""
        while True:
            head = _exactly(client, 8)
            length, code = struct.unpack(">II", head)
            if code not in (_SSL, _GSS):
                server.sendall(head + _exactly(client, length - 8))
                return bool(code != _CANCEL)
            client.sendall(b"N")

    def _back(self, server: socket.socket, client: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := server.recv(65536):
                client.sendall(data)
            client.shutdown(socket.SHUT_RDWR)

    def _forth(self, client: socket.socket, server: socket.socket) -> None:
        skipping = False
        while True:
            kind, length = (head := _exactly(client, 5))[:1], struct.unpack(">I", head[1:])[0]
            body = _exactly(client, length - 4)
            if skipping:
                if kind == b"S":
                    client.sendall(_READY)
                    skipping = False
                continue
            if kind in b"QP":
                with self._lock:
                    self.calls += 1
                    fault = self._fault if self._fault.hits(self.calls) else None
                if fault is not None and not fault.sqlstate:
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
                    client.close()
                    return
                if fault is not None:
                    client.sendall(_error(fault.sqlstate))
                    skipping = kind == b"P"
                    if not skipping:
                        client.sendall(_READY)
                    continue
            server.sendall(head + body)


_READY = b"Z" + struct.pack(">I", 5) + b"I"


def _error(sqlstate: str) -> bytes:
    fields = f"SERROR\0VERROR\0C{sqlstate}\0Minjected fault {sqlstate}\0\0".encode()
    return b"E" + struct.pack(">I", len(fields) + 4) + fields


def _exactly(source: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        if not (more := source.recv(count - len(data))):
            raise EOFError
        data += more
    return data
