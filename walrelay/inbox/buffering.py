"""Holds ASGI requests and responses until they are complete, and ends the transaction before the response is sent."""

from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import AsyncExitStack
from typing import Any

from walrelay.inbox.keys import Command

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class TooLarge(RuntimeError):
    """More bytes than the limit."""


class _NotKept(Exception):
    """Ends a transaction whose response is not stored."""


class Exchange:
    """A request's transaction, until its response is complete."""

    def __init__(
        self, opened: AsyncExitStack, connection: object, command: Command | None, keeps: Callable[[int], bool]
    ) -> None:
        self._opened, self._connection, self._command, self._keeps = opened, connection, command, keeps
        self._check: Callable[[], None] = lambda: None
        self.is_open = True

    def at_end(self, check: Callable[[], None]) -> None:
        """`check` runs before the commit, and raises if that would lose something."""
        self._check = check

    @property
    def connection(self) -> object:
        if not self.is_open:
            raise RuntimeError("the transaction of this request is over: its response is complete")
        return self._connection

    async def end(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        """Stores and commits, or rolls back."""
        self._check()
        self.is_open = False
        opened = self._opened.pop_all()
        if not self._keeps(status):
            await opened.__aexit__(_NotKept, _NotKept(), None)
            return
        async with opened:
            if self._command is not None:
                self._command.respond(status, headers, body)


class Buffered:
    """`send` for the application. The real one gets the response when it is complete and the transaction has ended.

    The application's background tasks run after the commit.
    """

    def __init__(self, exchange: Exchange, send: Send, limit: int) -> None:
        self.exchange = exchange
        self._send, self._limit = send, limit
        self._start: Message | None = None
        self._body = bytearray()

    async def send(self, message: Message) -> None:
        if not self.exchange.is_open:
            return
        kind = message["type"]
        if kind == "http.response.start" and not message.get("trailers"):
            self._start = {
                **message,
                "headers": list(message.get("headers", ())),
            }  # may be any iterable, and is used twice
            self._body.clear()  # after an error inside, another response replaces the first
        elif kind == "http.response.body" and self._start is not None:
            self._body += message.get("body", b"")
            if len(self._body) > self._limit:
                raise TooLarge(
                    f"the response is longer than {self._limit} bytes, and has to be stored with its key; raise"
                    " max_response_bytes, or leave the request out with `applies`"
                )
            if not message.get("more_body", False):
                await self._whole(self._start)
        else:
            what = "trailers" if kind == "http.response.start" else f"{kind} in its place"
            raise RuntimeError(
                f"a response with {what} cannot be stored with its key, and the scope offers no extension for it;"
                " answer with status, headers and body, or leave the request out with `applies`"
            )

    async def _whole(self, start: Message) -> None:
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in start["headers"]]
        body = bytes(self._body)
        await self.exchange.end(start["status"], headers, body)
        await self._send(start)
        await self._send({"type": "http.response.body", "body": body})


async def read(receive: Receive, limit: int) -> bytes | None:
    """The request's body; None if the client went away. TooLarge if it has more than `limit` bytes."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        body += message.get("body", b"")
        if len(body) > limit:
            raise TooLarge
        if not message.get("more_body", False):
            return bytes(body)


def replayed_body(body: bytes, receive: Receive) -> Receive:
    """Gives the body once, then the server's further messages."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return messages.pop() if messages else await receive()

    return again
