"""Serves the admin API from a thread of its own until it is stopped: uvicorn, plain or with TLS."""

import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from walrelay.admin.gate import CERTIFICATE, App
from walrelay.config.admin import AdminSettings
from walrelay.errors import Fatal
from walrelay.supervise import Stop

_AT_ONCE = 100  # connections and requests; more are answered with 503
_LEAVING = 5  # seconds for requests under way
_HEAD = 65_536  # bytes of a request's head that may come in parts


@contextmanager
def listening(settings: AdminSettings) -> Iterator[socket.socket]:
    """The socket; Fatal where it cannot be had."""
    host, port = settings.address
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, port), family=family)
    except OSError as error:
        raise Fatal(
            f"cannot listen on {settings.listen} (admin.listen): {error.strerror or error}",
            hint="Choose another port, or end what uses it: ss -ltnp shows that.",
        ) from None
    with listener:
        yield listener


def serve(app: App, settings: AdminSettings, listener: socket.socket, stop: Stop, leave: Callable[[], object]) -> None:
    """Returns when `stop` is set and what was under way is answered; Fatal where the server cannot begin. `leave` ends
    the answers that would last.
    """
    config = uvicorn.Config(
        app,
        http=_WithCertificate,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=_AT_ONCE,
        timeout_graceful_shutdown=_LEAVING,
        h11_max_incomplete_event_size=_HEAD,
        **_tls(settings),
    )
    try:
        config.load()
    except (OSError, ssl.SSLError) as error:
        raise Fatal(
            f"the files of admin.tls cannot be used: {error}", hint="They are PEM: certificate, its key, client_ca."
        ) from None
    server = uvicorn.Server(config)

    def run() -> None:
        try:
            server.run([listener])
        finally:
            stop.set()

    thread = Thread(target=run, name="admin API", daemon=True)
    thread.start()
    stop.wait()
    leave()
    server.should_exit = True
    thread.join(2 * _LEAVING)


def _tls(settings: AdminSettings) -> dict[str, Any]:
    tls = settings.tls
    if tls is None:
        return {}
    files: dict[str, Any] = {"ssl_certfile": tls.certificate, "ssl_keyfile": tls.key}
    if tls.client_ca is not None:
        files |= {"ssl_ca_certs": tls.client_ca, "ssl_cert_reqs": ssl.CERT_REQUIRED}
    return files


class _WithCertificate(H11Protocol):
    """Says in the scope whose certificate the client showed; uvicorn does not."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        tls = transport.get_extra_info("ssl_object")
        shown = tls.getpeercert() if tls is not None else None
        name = _common_name(shown) if shown else None
        app = self.app

        async def with_certificate(scope: Any, receive: Any, send: Any) -> None:
            await app({**scope, CERTIFICATE: name}, receive, send)

        self.app = with_certificate


def _common_name(certificate: Any) -> str | None:
    names = [value for part in certificate.get("subject", ()) for key, value in part if key == "commonName"]
    return names[0] if len(names) == 1 else None
