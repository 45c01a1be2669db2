"""Whoever watches gets an answer, whatever other clients do; and a relay notices nothing of it."""

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler
from typing import Any, cast

import pytest

from tests.seen import Seen
from tests.servers.waiting import wait_until
from walrelay.observe import Noticed
from walrelay.observe.processes import Listening
from walrelay.telemetry import listener
from walrelay.telemetry.endpoints import Endpoints, HttpAnswer
from walrelay.telemetry.listener import Listener

OVER = 90.0  # seconds: nothing here takes as long


class SomeEndpoints:
    """Answers as `Endpoints` does, as much as it is told to."""

    body = b"x"

    def get(self, path: str, accept: str) -> HttpAnswer:
        if path.startswith("/broken"):
            raise ValueError("no such thing")
        return HttpAnswer(200, self.body, "text/plain")


class Site:
    """`answers`: what is asked for."""

    def __init__(self, host: str = "127.0.0.1", port: int = 0) -> None:
        self.seen, self.answers, self._host = Seen(), SomeEndpoints(), host
        self.listener = Listener(host, port, cast(Endpoints, self.answers), self.seen)

    @property
    def port(self) -> int:
        wait_until(lambda: self.seen.of(Listening), OVER, "it to listen")
        return self.seen.of(Listening)[0].port

    def ask(self, method: str = "GET", path: str = "/", timeout: float = OVER) -> tuple[int, bytes]:
        connection = HTTPConnection(self._host, self.port, timeout=timeout)
        try:
            connection.request(method, path)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def connected(self) -> socket.socket:
        return socket.create_connection((self._host, self.port), timeout=OVER)

    @property
    def notices(self) -> list[str]:
        return [each.text for each in self.seen.of(Noticed)]


def answering() -> int:
    """How many threads have a connection."""
    return sum("process_request" in each.name for each in threading.enumerate())


@contextmanager
def listening(site: Site) -> Iterator[Site]:
    before = {*threading.enumerate()}
    with site.listener:
        yield site
    wait_until(lambda: {*threading.enumerate()} <= before, OVER, "its threads to end")


@pytest.fixture
def site() -> Iterator[Site]:
    with listening(Site()) as made:
        yield made


def test_hundreds_of_connections_that_ask_nothing_keep_nobody_from_an_answer(site: Site) -> None:
    with ExitStack() as stack:
        for number in range(300):
            silent = stack.enter_context(site.connected())
            if number % 2:
                with suppress(OSError):
                    silent.sendall(b"GET /metrics HTTP/1.1\r\nHost:")  # and never the rest
            if number % 50 == 0:
                assert site.ask() == (200, b"x")
        wait_until(lambda: answering() <= 33, OVER, "threads of old connections to end")
        assert site.ask() == (200, b"x")
    assert site.notices == []


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n", b"414"),
        (b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 200 + b"\r\n", b"431"),
        (b"POST /metrics HTTP/1.1\r\nContent-Length: 0\r\n\r\n", b"501"),
        (b"\x16\x03\x01\x02\x00\x01\r\n\r\n", b"400"),
        (b"GET / HTTP/9.9\r\n\r\n", b"505"),
        (b"GET http://elsewhere/ HTTP/1.1\r\n\r\n", b"200"),
    ],
)
def test_what_is_no_proper_request_has_an_answer_of_one_line(site: Site, request_: bytes, status: bytes) -> None:
    with site.connected() as client:
        client.sendall(request_)
        with suppress(OSError):
            client.shutdown(socket.SHUT_WR)
        answer = b""
        with suppress(ConnectionError):
            while got := client.recv(65_536):
                answer += got
    head, _, body = answer.partition(b"\r\n\r\n")
    assert status in (head or body)[:40]
    assert b"<" not in body
    assert site.ask() == (200, b"x")


def test_a_head_has_no_body(site: Site) -> None:
    assert site.ask("HEAD") == (200, b"")


def test_a_client_that_goes_away_leaves_no_line(site: Site, capfd: pytest.CaptureFixture[str]) -> None:
    site.answers.body = b"x" * 10_000_000
    for _ in range(20):
        with site.connected() as client:
            client.sendall(b"GET / HTTP/1.1\r\n\r\n")
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # a reset
    assert len(site.ask()[1]) == 10_000_000
    wait_until(lambda: answering() == 0, OVER, "their threads to end")
    assert capfd.readouterr() == ("", "")
    assert site.notices == []


def test_what_cannot_be_told_is_an_error_for_who_asks_and_a_line_in_the_log(
    site: Site, capfd: pytest.CaptureFixture[str]
) -> None:
    status, body = site.ask(path="/broken?secret=1")
    assert (status, body) == (500, b"walrelay: this failed, and the log says why\n")
    assert site.notices == ["'/broken' failed: ValueError: no such thing"]
    assert capfd.readouterr() == ("", "")


def test_a_port_that_is_in_use_stops_nothing_and_is_taken_when_it_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "_AGAIN", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as other:
        late = Site(port=other.getsockname()[1])
        with listening(late):
            wait_until(lambda: late.notices, OVER, "it to say why")
            assert "Address already in use" in late.notices[0]
            other.close()
            assert late.ask() == (200, b"x")


@pytest.mark.parametrize(("host", "port"), [("127.0.0.1", 70_000), ("192.0.2.1", 9464), ("no such host", 9464)])
def test_an_address_that_cannot_be_listened_on_is_said(host: str, port: int) -> None:
    wrong = Site(host, port)
    with listening(wrong):
        wait_until(lambda: wrong.notices, OVER, "it to say why")
        assert wrong.notices[0].startswith(f"cannot listen on {host}:{port} (http.listen): ")


@pytest.mark.skipif(not socket.has_ipv6, reason="there is no IPv6")
def test_it_listens_on_an_address_of_ipv6() -> None:
    with listening(Site("::1")) as site:
        assert site.ask() == (200, b"x")


def test_it_ends_at_once_while_clients_keep_their_connections() -> None:
    with ExitStack() as stack:
        with Site().listener:
            pass  # before it listens
        site = Site()
        with site.listener:
            for _ in range(5):
                stack.enter_context(site.connected()).sendall(b"GET /")


def test_connections_are_counted_under_one_lock_and_a_full_server_refuses_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "_CONNECTIONS", 1)
    server = listener._Server("127.0.0.1", 0, BaseHTTPRequestHandler, lambda text: None)

    class Watched(dict[Any, None]):
        def pop(self, *key: Any) -> Any:
            assert server._changing.locked()
            return super().pop(*key)

    server._open = Watched()
    (first, _), (second, other) = socket.socketpair(), socket.socketpair()
    with server.answering(first):
        server._open[first] = None
        server.process_request(second, ("127.0.0.1", 1))
        assert other.recv(1) == b"", "it is closed at once"
        server.close_request(first)
        assert server._open == {}
    server.server_close()
