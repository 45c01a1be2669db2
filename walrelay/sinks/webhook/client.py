"""aiohttp, made strict: what it sends is what it was given, and an answer belongs to a request that was sent."""

import os
import socket
import ssl
from typing import Any

import aiohttp
from aiohttp.abc import AbstractStreamWriter
from aiohttp.connector import Connection
from aiohttp.payload import BytesPayload

from walrelay import __version__
from walrelay.sinks.webhook.networks import PrivateAddress, is_public

_IDLE = 4.0  # seconds a connection is kept for the next request: some servers end them after 5
_READ = 64 * 2**10  # bytes of an answer that are buffered


class AnswerWithoutRequest(aiohttp.ClientConnectionError):
    """The endpoint said something before it was asked."""


class WholeBody(BytesPayload):
    """A body that knows whether all of its request left this process."""

    def __init__(self, value: bytes) -> None:
        super().__init__(value)
        self._transport: Any = None

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        transport = getattr(writer, "transport", None)
        await super().write_with_length(writer, content_length)
        self._transport = transport

    @property
    def is_sent(self) -> bool:
        return self._transport is not None and self._transport.get_write_buffer_size() == 0


class _StrictConnector(aiohttp.TCPConnector):
    """The pool would take what came on an idle connection for the answer to the next request."""

    async def connect(self, *args: Any, **options: Any) -> Connection:
        connection = await super().connect(*args, **options)
        if connection.protocol is None or connection.protocol.should_close:
            connection.close()
            raise AnswerWithoutRequest("it said something before it was asked")
        return connection


def session(context: ssl.SSLContext | None, timeout: float, *, allow_private: bool) -> aiohttp.ClientSession:
    """To be called in the loop. Follows no proxy of the environment, keeps no cookies, and decompresses nothing."""
    connector = _StrictConnector(
        limit=0,
        ssl=True if context is None else context,
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
        trust_env=False,
    )


def said(why: BaseException) -> str:
    """What went wrong, without what aiohttp wraps around it: the URL, for example, which may be secret."""
    if isinstance(why, aiohttp.ClientConnectorCertificateError):
        return f"its certificate was not accepted: {why.certificate_error}"
    if isinstance(why, aiohttp.ClientConnectorError):
        return f"it cannot be reached: {why.os_error}"
    if isinstance(why, aiohttp.ClientResponseError):
        return f"its answer is not HTTP: {_first_line(why.message)}"
    if isinstance(why, aiohttp.ServerDisconnectedError):
        return "it closed the connection without an answer"
    if isinstance(why, AnswerWithoutRequest):
        return str(why)
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
