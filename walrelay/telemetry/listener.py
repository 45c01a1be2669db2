"""The endpoints for machines that watch: metrics, and health in three questions."""

import json
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from time import monotonic
from typing import NamedTuple, Self

from walrelay.errors import Fatal
from walrelay.telemetry.health import RelayHealth, health
from walrelay.telemetry.instruments import RelayView
from walrelay.telemetry.views import Views

_LONG = 10.0  # seconds for a client to send its request


class HttpAnswer(NamedTuple):
    status: int
    body: bytes
    content_type: str


class Endpoints:
    """What each path answers."""

    def __init__(self, views: Views, stall_after: float, metrics: Callable[[str], tuple[bytes, str]]) -> None:
        """`metrics` makes the text of a scrape for an Accept header: (body, content type)."""
        self._views, self._stall_after, self._metrics = views, stall_after, metrics

    def get(self, path: str, accept: str) -> HttpAnswer:
        match path.partition("?")[0]:
            case "/metrics":
                return HttpAnswer(200, *self._metrics(accept))
            case "/healthz":
                return self._health(self._views.without_asking(), lambda relay: relay.alive)
            case "/readyz":
                return self._health(self._views(), lambda relay: relay.ready)
            case "/startupz":
                return self._health(self._views.without_asking(), lambda relay: relay.started)
        return HttpAnswer(404, b"walrelay: /metrics, /healthz, /readyz, /startupz\n", "text/plain; charset=utf-8")

    def _health(self, views: Sequence[RelayView], well: Callable[[RelayHealth], bool]) -> HttpAnswer:
        now = monotonic()
        relays = [health(view, now, self._stall_after) for view in views]
        ok = all(well(each) for each in relays)
        body = json.dumps({"ok": ok, "relays": [each.as_json() for each in relays]}, indent=2) + "\n"
        return HttpAnswer(200 if ok else 503, body.encode(), "application/json")


class Listener:
    """Serves the endpoints from threads of its own, until it is closed. Fatal where it cannot listen."""

    def __init__(self, host: str, port: int, endpoints: Endpoints) -> None:
        try:
            self._server = _Server((host, port), _handler(endpoints))
        except OSError as error:
            raise Fatal(
                f"cannot listen on {host}:{port} (http.listen): {error.strerror or error}",
                hint="Choose another port, or end what uses it: ss -ltnp shows that.",
                page="listening",
            ) from None
        self._thread = Thread(target=self._server.serve_forever, name="http", daemon=True)

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True


def _handler(endpoints: Endpoints) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = _LONG
        protocol_version = "HTTP/1.1"
        server_version, sys_version = "walrelay", ""

        def do_GET(self) -> None:
            answer = endpoints.get(self.path, self.headers.get("Accept", ""))
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
