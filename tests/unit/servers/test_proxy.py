"""The proxy breaks connections in each of the ways it promises."""

import socket
import threading
from collections.abc import Iterator

import pytest

from tests.servers.ports import LOOPBACK
from tests.servers.proxy import Proxy
from tests.servers.waiting import wait_until


class Echo:
    """Sends back what it gets."""

    def __init__(self) -> None:
        self._listener = socket.create_server((LOOPBACK, 0))
        self.address: tuple[str, int] = self._listener.getsockname()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    @staticmethod
    def _answer(connection: socket.socket) -> None:
        with connection:
            try:
                while data := connection.recv(65536):
                    connection.sendall(data)
            except OSError:
                return


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    echo = Echo()
    with Proxy(echo.address) as proxy:
        yield proxy
    echo.close()


def connect(proxy: Proxy) -> socket.socket:
    client = socket.create_connection((LOOPBACK, proxy.port))
    client.settimeout(5)
    return client


def ask(client: socket.socket, data: bytes) -> bytes:
    client.sendall(data)
    return client.recv(65536)


def is_silent(client: socket.socket) -> bool:
    client.settimeout(0.2)
    try:
        client.recv(1)
    except TimeoutError:
        return True
    finally:
        client.settimeout(5)
    return False


def test_it_forwards_both_ways_and_counts(proxy: Proxy) -> None:
    with connect(proxy) as one, connect(proxy) as other:
        assert ask(one, b"a") == b"a"
        assert ask(other, b"b") == b"b"
        assert (proxy.connections, proxy.accepted) == (2, 2)
    wait_until(lambda: proxy.connections == 0, 5, "the connections to be closed")
    assert proxy.accepted == 2


def test_it_forwards_an_end(proxy: Proxy) -> None:
    with connect(proxy) as client:
        client.sendall(b"a")
        client.shutdown(socket.SHUT_WR)
        assert client.recv(10) == b"a"
        assert client.recv(10) == b""


def test_a_cut_resets_connections_and_lets_new_ones_through(proxy: Proxy) -> None:
    with connect(proxy) as client:
        assert ask(client, b"a") == b"a"
        proxy.cut()
        with pytest.raises(ConnectionResetError):
            client.recv(1)
    assert proxy.connections == 0
    with connect(proxy) as client:
        assert ask(client, b"b") == b"b"


def test_a_stall_keeps_connections_and_loses_nothing(proxy: Proxy) -> None:
    with connect(proxy) as client:
        assert ask(client, b"a") == b"a"
        proxy.stall()
        client.sendall(b"bc")
        assert is_silent(client)
        assert proxy.connections == 1
        proxy.resume()
        assert client.recv(10) == b"bc"


def test_a_stalled_connection_can_be_cut(proxy: Proxy) -> None:
    with connect(proxy) as client:
        assert ask(client, b"a") == b"a"
        proxy.stall()
        client.sendall(b"b")
        proxy.cut()
        with pytest.raises(ConnectionResetError):
            client.recv(1)


def test_a_full_stall_stops_the_sender(proxy: Proxy) -> None:
    with connect(proxy) as client:
        assert ask(client, b"a") == b"a"
        proxy.stall()
        client.settimeout(0.2)
        with pytest.raises(TimeoutError):
            client.sendall(bytes(500_000_000))


def test_a_half_open_connection_swallows_for_ever(proxy: Proxy) -> None:
    with connect(proxy) as client:
        assert ask(client, b"a") == b"a"
        proxy.half_open()
        client.sendall(bytes(1_000_000))
        client.shutdown(socket.SHUT_WR)
        proxy.resume()
        assert is_silent(client)
        assert proxy.connections == 1
        with connect(proxy) as another:
            assert ask(another, b"b") == b"b"


def test_refused_connections_are_reset_until_it_resumes(proxy: Proxy) -> None:
    with connect(proxy) as client:
        assert ask(client, b"a") == b"a"
        proxy.refuse()
        with pytest.raises(ConnectionResetError):
            client.recv(1)
    with connect(proxy) as client, pytest.raises(ConnectionResetError):
        client.recv(1)
    proxy.resume()
    with connect(proxy) as client:
        assert ask(client, b"b") == b"b"


def test_a_target_that_is_away_resets_the_client() -> None:
    with socket.socket() as unused:
        unused.bind((LOOPBACK, 0))
        with Proxy(unused.getsockname()) as proxy, connect(proxy) as client, pytest.raises(ConnectionResetError):
            client.recv(1)


def test_it_closes_twice_and_with_open_connections(proxy: Proxy) -> None:
    with connect(proxy) as client:
        assert ask(client, b"a") == b"a"
        proxy.close()
        proxy.close()
        with pytest.raises(ConnectionResetError):
            client.recv(1)
