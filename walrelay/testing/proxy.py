"""A TCP proxy on the loopback interface that breaks connections on purpose."""

import asyncio
import contextlib
import enum
import socket
import struct
import threading
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar

T = TypeVar("T")

LOOPBACK = "127.0.0.1"

_CHUNK_BYTES = 65536
# Closing with a lingering time of zero sends RST, not FIN: the peer sees a broken connection, not an end.
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class _Mode(enum.Enum):
    FORWARD = enum.auto()
    STALL = enum.auto()
    REFUSE = enum.auto()
    SWALLOW = enum.auto()


@dataclass(eq=False)
class _Link:
    """One client's connection, and ours to the target for it."""

    ends: tuple[asyncio.StreamWriter, asyncio.StreamWriter]
    task: asyncio.Task[None]
    dead: bool
    ended: asyncio.Event = field(default_factory=asyncio.Event)


class Proxy:
    """Listens at `address` from the moment it is made, and forwards to `target` until told otherwise.

    An event loop in a thread does the work; every command returns when it is carried out.
    """

    def __init__(self, target: tuple[str, int]) -> None:
        self._targets = [target]
        self._mode = _Mode.FORWARD
        self._links: set[_Link] = set()
        self._accepted = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._thread.start()
        self._moving = asyncio.Event()
        self._moving.set()
        self._listener, self.port = self._carry_out(self._listen())

    @property
    def address(self) -> str:
        return f"{LOOPBACK}:{self.port}"

    @property
    def connections(self) -> int:
        """How many are open now."""
        return len(self._links)

    @property
    def accepted(self) -> int:
        """How many were accepted so far."""
        return self._accepted

    def cut(self) -> None:
        """Reset every connection, as a crashed peer or a firewall does. New ones are forwarded."""
        self._carry_out(self._cut())

    def refuse(self) -> None:
        """Reset every connection, and each new one at once, until resume()."""
        self._carry_out(self._turn(_Mode.REFUSE))
        self.cut()

    def stall(self) -> None:
        """Forward nothing in either direction, keep every connection open, lose nothing, until resume()."""
        self._carry_out(self._turn(_Mode.STALL))

    def half_open(self) -> None:
        """Swallow what comes on every connection and close none, as if the peer were gone without a word.

        resume() is for new connections: bytes are missing in these, so they stay dead.
        """
        self._carry_out(self._turn(_Mode.SWALLOW))

    def lead_to(self, *ports: int) -> None:
        """Of the connections that come from now on each goes to the next of these, and all others to the last."""
        self._targets = [(LOOPBACK, port) for port in ports]

    def resume(self) -> None:
        """Forward again."""
        self._carry_out(self._turn(_Mode.FORWARD))

    def close(self) -> None:
        """Stop listening and reset what is open."""
        if self._loop.is_closed():
            return
        self._carry_out(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _carry_out(self, command: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(command, self._loop).result(10)

    async def _listen(self) -> tuple[asyncio.Server, int]:
        server = await asyncio.start_server(self._connected, LOOPBACK, 0)
        return server, server.sockets[0].getsockname()[1]

    async def _turn(self, mode: _Mode) -> None:
        self._mode = mode
        if mode is _Mode.SWALLOW:
            for link in self._links:
                link.dead = True
        if mode is _Mode.STALL:
            self._moving.clear()
        else:
            self._moving.set()

    async def _cut(self) -> None:
        links = list(self._links)
        for link in links:
            link.task.cancel()
        await asyncio.gather(*(link.ended.wait() for link in links))

    async def _close(self) -> None:
        self._listener.close()
        await self._cut()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._accepted += 1
        if self._mode is _Mode.REFUSE:
            _reset(writer)
            return
        target = self._targets.pop(0) if len(self._targets) > 1 else self._targets[0]
        try:
            target_reader, target_writer = await asyncio.open_connection(*target)
        except OSError:
            _reset(writer)
            return
        task = asyncio.current_task()
        assert task is not None
        link = _Link((writer, target_writer), task, dead=self._mode is _Mode.SWALLOW)
        self._links.add(link)
        try:
            await asyncio.gather(self._forward(reader, target_writer, link), self._forward(target_reader, writer, link))
            for end in link.ends:
                end.close()
        except (OSError, asyncio.CancelledError):
            for end in link.ends:
                _reset(end)
        finally:
            self._links.discard(link)
            link.ended.set()

    async def _forward(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, link: _Link) -> None:
        try:
            while data := await source.read(_CHUNK_BYTES):
                await self._moving.wait()
                if not link.dead:
                    sink.write(data)
                    await sink.drain()
            await self._moving.wait()
        except OSError:
            if not link.dead:
                raise
        if link.dead:
            await asyncio.Event().wait()  # the other end is not told, until the connection is cut
        sink.write_eof()


def _reset(writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        connection: socket.socket = writer.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    writer.transport.abort()
