"""The server of the admin API: TLS, certificates, a port that is taken, a stop."""

import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import pytest

from tests.servers.certificates import Authority
from walrelay.admin.gate import AdminGate, Receive, Send
from walrelay.admin.server import listening, serve
from walrelay.config.admin import AdminSettings
from walrelay.errors import Fatal
from walrelay.supervise import Stop


async def who(scope: Any, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": scope["state"]["caller"].name.encode()})


@contextmanager
def served(**section: Any) -> Iterator[int]:
    """The port."""
    settings, stop = AdminSettings.model_validate({"listen": "127.0.0.1:0", **section}), Stop()
    with listening(settings) as listener, ExitStack() as stack:
        gate = AdminGate(who, settings, lambda error: None)
        thread = Thread(target=serve, args=(gate, settings, listener, stop, lambda: None))
        thread.start()
        stack.callback(thread.join, 20)
        stack.callback(stop.set)
        yield listener.getsockname()[1]
    assert not thread.is_alive()


def test_a_client_is_known_by_its_certificate(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate, key = map(str, authority.sign("server"))
    tls = {"certificate": certificate, "key": key, "client_ca": str(authority.certificate)}
    with served(tls=tls, certificates=[{"name": "backup"}]) as port:
        trusting = ssl.create_default_context(cafile=str(authority.certificate))
        with pytest.raises(httpx.TransportError):
            httpx.get(f"https://127.0.0.1:{port}/x", verify=trusting)
        trusting.load_cert_chain(*map(str, authority.sign("backup")))
        assert httpx.get(f"https://127.0.0.1:{port}/x", verify=trusting).text == "backup"
        other = ssl.create_default_context(cafile=str(authority.certificate))
        other.load_cert_chain(*map(str, authority.sign("stranger")))
        assert httpx.get(f"https://127.0.0.1:{port}/x", verify=other).status_code == 401


def test_files_that_are_no_certificates_are_told() -> None:
    tls = {"certificate": "/nothing.pem", "key": "/nothing.key"}
    settings = AdminSettings.model_validate({"listen": "127.0.0.1:0", "tls": tls})
    with listening(settings) as listener, pytest.raises(Fatal, match="files of admin"):
        serve(AdminGate(who, settings, lambda error: None), settings, listener, Stop(), lambda: None)


def test_a_port_that_is_taken_is_told() -> None:
    with (
        served() as port,
        pytest.raises(Fatal, match="cannot listen on 127"),
        listening(AdminSettings(listen=f"127.0.0.1:{port}")),
    ):
        pass


def test_a_client_that_says_nothing_keeps_nobody_waiting_and_no_stop_up() -> None:

    with served() as port, socket.create_connection(("127.0.0.1", port)) as silent:
        silent.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n")
        assert httpx.get(f"http://127.0.0.1:{port}/x").text == "anonymous"


def test_a_head_that_is_too_large_is_refused() -> None:
    with served() as port:
        answer = httpx.get(f"http://127.0.0.1:{port}/x", headers={"X-Large": "x" * 100_000})
        assert answer.status_code == 431
