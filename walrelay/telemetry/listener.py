"""Answers HTTP from threads of its own, whatever its clients do."""

import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from threading import Event, Lock, Thread
from typing import Any, Self

from walrelay.observe import Noticed, Observer, notices
from walrelay.observe.processes import Listening
from walrelay.telemetry.endpoints import Endpoints, HttpAnswer

_LONG = 10.0  # seconds for a client to send its request, or to take the answer
_AGAIN = 10.0  # seconds until it is tried again to listen
_CONNECTIONS = 32
_LOOK = 0.2  # seconds between two looks at whether to end
_LEAVING = 1.0  # seconds


class _Server(ThreadingHTTPServer):
    """Has so many connections at most: for a new one, that which has asked nothing for the longest time is ended. So
    neither many of them nor slow ones use up the threads and descriptors of the process.
    """

    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    request_queue_size = 128

    def __init__(
        self, host: str, port: int, handler: type[BaseHTTPRequestHandler], tell: Callable[[str], None]
    ) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._open, self._busy, self._changing = dict[Any, None](), set[Any](), Lock()
        self._tell = tell
        super().__init__((host, port), handler)

    def server_bind(self) -> None:
        """Without the name of this host, for which HTTPServer would ask a name server."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = "walrelay", int(self.server_address[1])

    def get_request(self) -> Any:
        try:
            return super().get_request()
        except OSError:
            self._pause.wait(_LOOK)  # no descriptor is left, and it would be tried again at once
            raise

    _pause = Event()

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._changing:
            full = len(self._open) >= _CONNECTIONS
            idle = next((each for each in self._open if each not in self._busy), None) if full else None
            taken = not full or idle is not None
            if idle is not None:
                del self._open[idle]
                with suppress(OSError):
                    idle.shutdown(socket.SHUT_RDWR)
            if taken:
                self._open[request] = None
        if taken:
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    @contextmanager
    def answering(self, request: Any) -> Iterator[None]:
        """Inside, that connection is not ended for another one."""
        with self._changing:
            self._busy.add(request)
        try:
            yield
        finally:
            with self._changing:
                self._busy.discard(request)
                if request in self._open:
                    del self._open[request]
                    self._open[request] = None

    def close_request(self, request: Any) -> None:
        with self._changing:
            self._open.pop(request, None)
        super().close_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):  # the client went away
            self._tell(f"a request could not be answered: {type(error).__name__}: {error}")


class Listener:
    """Serves the endpoints from threads of its own. Where it cannot listen it says so and tries again: no relay waits
    for it, and none ends because of it.
    """

    def __init__(self, host: str, port: int, endpoints: Endpoints, observer: Observer) -> None:
        """`observer`: the process's own."""
        self._host, self._port, self._observer = host, port, observer
        self._handler = _handler(endpoints, notices(observer))
        self._server: _Server | None = None
        self._ended, self._changing = Event(), Lock()
        self._thread = Thread(target=self._serve, name="http", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._changing:
            self._ended.set()
            server = self._server
        if server is not None:
            server.shutdown()
            server.server_close()
        self._thread.join(_LEAVING)  # it may wait for a name server

    def _serve(self) -> None:
        while not self._ended.is_set():
            server = self._listen()
            if server is not None:
                server.serve_forever(_LOOK)
                return
            self._ended.wait(_AGAIN)

    def _listen(self) -> _Server | None:
        try:
            server = _Server(self._host, self._port, self._handler, notices(self._observer))
        except (OSError, OverflowError, UnicodeError) as error:
            why = error.strerror or str(error) if isinstance(error, OSError) else str(error)
            text = f"cannot listen on {self._host}:{self._port} (http.listen): {why}; the relays run, and it is tried"
            self._observer.saw(Noticed(f"{text} again every {_AGAIN:.0f} s (`ss -ltnp` shows who uses a port)"))
            return None
        with self._changing:
            if self._ended.is_set():
                server.server_close()
                return None
            self._server = server
        self._observer.saw(Listening(self._host, int(server.server_address[1])))
        return server


def _handler(endpoints: Endpoints, tell: Callable[[str], None]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = _LONG
        protocol_version = "HTTP/1.1"
        server_version, sys_version = "walrelay", ""
        error_content_type, error_message_format = "text/plain; charset=utf-8", "walrelay: %(code)d %(message)s\n"

        def do_GET(self) -> None:
            assert isinstance(self.server, _Server)
            with self.server.answering(self.connection):
                self._answer(self._asked())

        def _asked(self) -> HttpAnswer:
            try:
                return endpoints.get(self.path, self.headers.get("Accept", ""))
            except Exception as error:  # who watches must hear that it cannot be told
                tell(f"{self.path.partition('?')[0][:100]!r} failed: {type(error).__name__}: {error}")
                return HttpAnswer(500, b"walrelay: this failed, and the log says why\n", "text/plain; charset=utf-8")

        def _answer(self, answer: HttpAnswer) -> None:
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.content_type)
            self.send_header("Content-Length", str(len(answer.body)))
            self.send_header("Cache-Control", "no-store")
            self.send_header("X-Content-Type-Options", "nosniff")
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(answer.body)

        do_HEAD = do_GET  # noqa: N815 -- the library's name

        def log_message(self, *_: object) -> None:
            """The log is for what happens to relays."""

    return Handler
