"""aiohttp, made strict: what it sends is what it was given, and an answer belongs to a request that was sent."""

import asyncio
import os
import socket
from collections.abc import Callable
from typing import Any

import aiohttp
from aiohttp.abc import AbstractStreamWriter
from aiohttp.connector import Connection
from aiohttp.payload import BytesPayload

from walrelay import __version__
from walrelay.certificates import tls_error
from walrelay.sinks.hosting import PumpedLoop
from walrelay.sinks.webhook.networks import PrivateAddress, is_public

_IDLE = 4.0  # seconds a connection is kept for the next request: some servers end them after 5
_READ = 64 * 2**10  # bytes of an answer that are buffered
_LINE = 64 * 2**10  # bytes that the status line and each header of an answer may have: more than proxies pass on
_LINES = 512  # headers


class AnswerWithoutRequest(aiohttp.ClientConnectionError):
    """The endpoint said something before it was asked."""


class WholeBody(BytesPayload):
    """A body that knows whether all of its request was handed to the system. Its transport's buffers alone do not say
    so: they are empty too once a connection broke.
    """

    def __init__(self, value: bytes, loop: PumpedLoop) -> None:
        super().__init__(value)
        self._loop = loop
        self.is_sent = False

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        await super().write_with_length(writer, content_length)
        transport = getattr(writer, "transport", None)
        if transport is not None:
            self.is_sent = await _flushed(transport, self._loop.beneath(transport), writer)


async def _flushed(transport: Any, below: Any, writer: AbstractStreamWriter) -> bool:
    """Waits until the transport, and the one below its TLS, have handed everything to the system. False if the
    connection ended before.
    """
    lowest = below or transport

    def left() -> int:
        return transport.get_write_buffer_size() + (below.get_write_buffer_size() if below else 0)  # type: ignore[no-any-return]

    if left() and not lowest.is_closing():
        if below is None:
            lowest.set_write_buffer_limits(0)
            await writer.drain()
        else:
            watch = _FlushWatch(below.get_protocol(), left)
            below.set_protocol(watch)
            below.set_write_buffer_limits(0)
            await watch.done
            below.set_protocol(watch.watched)
        lowest.set_write_buffer_limits()
    return not left() and not lowest.is_closing()


class _FlushWatch(asyncio.BufferedProtocol):
    """Stands before the protocol of TLS until nothing is left to write: TLS itself does not wait for that."""

    def __init__(self, watched: Any, left: Callable[[], int]) -> None:
        self.watched, self._left = watched, left
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def get_buffer(self, sizehint: int) -> Any:
        return self.watched.get_buffer(sizehint)

    def buffer_updated(self, nbytes: int) -> None:
        self.watched.buffer_updated(nbytes)

    def eof_received(self) -> Any:
        return self.watched.eof_received()

    def pause_writing(self) -> None:
        self.watched.pause_writing()

    def resume_writing(self) -> None:
        self.watched.resume_writing()
        if not self._left():
            self._finish()

    def connection_lost(self, why: Exception | None) -> None:
        self.watched.connection_lost(why)
        self._finish()

    def _finish(self) -> None:
        if not self.done.done():
            self.done.set_result(None)


class _StrictConnector(aiohttp.TCPConnector):
    """The pool would take what came on an idle connection for the answer to the next request."""

    async def connect(self, *args: Any, **options: Any) -> Connection:
        connection = await super().connect(*args, **options)
        if connection.protocol is None or connection.protocol.should_close:
            connection.close()
            raise AnswerWithoutRequest("it said something before it was asked")
        return connection


def session(timeout: float, *, allow_private: bool) -> aiohttp.ClientSession:
    """To be called in the loop. Follows no proxy of the environment, keeps no cookies, and decompresses nothing."""
    connector = _StrictConnector(
        limit=0,
        keepalive_timeout=_IDLE,
        socket_factory=_any_socket if allow_private else _public_socket,
    )
    return aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=timeout, ceil_threshold=timeout + 1),
        auto_decompress=False,
        skip_auto_headers=["Accept-Encoding"],
        headers={"User-Agent": f"walrelay/{__version__}"},
        read_bufsize=_READ,
        max_line_size=_LINE,
        max_field_size=_LINE,
        max_headers=_LINES,
        trust_env=False,
    )


def said(why: BaseException) -> str:
    """What went wrong, without what aiohttp wraps around it: the URL, for example, which may be secret."""
    if isinstance(why, aiohttp.ClientConnectorCertificateError):
        return f"its certificate was not accepted: {why.certificate_error}"
    if isinstance(why, aiohttp.ClientConnectorError):
        return f"it cannot be reached: {tls_error(why.os_error) or why.os_error}"
    if isinstance(why, aiohttp.ClientResponseError):
        return f"its answer is not HTTP: {_first_line(why.message)}"
    if isinstance(why, aiohttp.ServerDisconnectedError):
        return "it closed the connection without an answer"
    if isinstance(why, AnswerWithoutRequest):
        return str(why)
    if tls := tls_error(why):
        return f"the connection failed: {tls}"
    if isinstance(why, OSError) and why.errno is not None:
        return f"the connection failed: {os.strerror(why.errno)}"
    return f"the connection failed: {type(why).__name__}"


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0][:200]


def _public_socket(place: Any) -> socket.socket:
    """Called with each address at the moment that it is connected to: a name may lead elsewhere than it did before."""
    address = str(place[4][0])
    if not is_public(address):
        raise PrivateAddress(f"{address} is a private address; sink.allow_private_addresses would allow it")
    return _any_socket(place)


def _any_socket(place: Any) -> socket.socket:
    return socket.socket(*place[:3])
