"""An asyncio loop that the relay's thread runs itself, a moment at a time: nothing moves between two moments.

A thread of its own would gain nothing, since one of the two waits for the interpreter anyway, and would cost the order
in which things happen. The price: whoever has the loop must pump it, also while it waits for something else.
"""

import asyncio
import ssl
from asyncio import BaseTransport
from collections.abc import Callable, Coroutine
from contextlib import suppress
from selectors import BaseSelector, DefaultSelector
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

_TURNS = 3  # of the loop in a pump: bytes arrive, the task that waits for them wakes up, and it says what it read


class PumpedLoop(asyncio.SelectorEventLoop):
    """Made and run by one thread at a time. Knows the transports that clients make, so that all can be aborted."""

    def __init__(self, selector: BaseSelector | None = None) -> None:
        """`selector` belongs to the loop from now on: it is closed with it."""
        selector = selector or DefaultSelector()
        super().__init__(selector)
        self.descriptor: int | None = selector.fileno() if hasattr(selector, "fileno") else None
        """Readable when there is something to pump; None where the system's selector has none."""
        self._made: WeakSet[BaseTransport] = WeakSet()
        self._beneath: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()  # by the transport of TLS
        self._started: set[asyncio.Task[Any]] = set()
        self._awake = False
        self.encrypted = False
        """Whether a connection has TLS."""

    async def create_connection(
        self,
        protocol_factory: Callable[[], Any],
        *args: Any,
        ssl: Any = None,
        server_hostname: str | None = None,
        ssl_handshake_timeout: float | None = None,
        ssl_shutdown_timeout: float | None = None,
        **options: Any,
    ) -> Any:
        """As asyncio's; the transport is remembered, and with TLS the one that it goes through."""
        if not ssl:
            made = await super().create_connection(protocol_factory, *args, **options)
            self._made.add(made[0])
            return made
        below, _ = await super().create_connection(_Unread, *args, **options)
        self._made.add(below)
        protocol = protocol_factory()
        transport = await self.start_tls(
            below,
            protocol,
            _context() if ssl is True else ssl,
            server_hostname=(args[0] if args else options.get("host")) if server_hostname is None else server_hostname,
            ssl_handshake_timeout=ssl_handshake_timeout,
            ssl_shutdown_timeout=ssl_shutdown_timeout,
        )
        protocol.connection_made(transport)
        return transport, protocol

    async def start_tls(self, transport: Any, *args: Any, **options: Any) -> Any:
        """As asyncio's; what it is about is told."""
        made: Any = await super().start_tls(transport, *args, **options)
        self.encrypted = True
        self._made.add(made)
        self._beneath[made] = transport
        return made

    def beneath(self, transport: Any) -> Any:
        """The transport that this one of TLS goes through; None where there is no TLS."""
        return self._beneath.get(transport)

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs beside everything else, when the loop is pumped; its errors are its own affair."""
        task = self.create_task(work)
        self._started.add(task)
        task.add_done_callback(self._started.discard)

    def pump(self, timeout: float) -> None:
        """Does what there is to do; if nobody calls `wake` meanwhile, goes on for up to `timeout` seconds."""
        self._awake = False
        self._turn(_TURNS)
        if timeout > 0 and not self._awake:
            end = self.call_later(timeout, self.stop)
            self.run_forever()
            end.cancel()

    def wake(self) -> None:
        """Ends a pump that waits: something has happened that its caller waits for. For callbacks of this loop."""
        self._awake = True
        self.stop()

    def let_go(self) -> None:
        """Aborts every connection, cancels every task and closes the loop; nothing that waits is sent. Never raises."""
        if self.is_closed():
            return
        for transport in [*self._made]:
            with suppress(Exception):
                getattr(transport, "abort", transport.close)()
        for task in asyncio.all_tasks(self):
            task.cancel()
        self.set_exception_handler(lambda loop, context: None)  # what breaks now is meant to break
        with suppress(Exception):
            self._turn(_TURNS)
        with suppress(Exception):
            self.close()

    def _turn(self, turns: int) -> None:
        """So many turns of the loop. A `stop` ends the loop behind the turn that it is called in."""
        for _ in range(turns):
            self.stop()
            self.run_forever()


class _Unread(asyncio.Protocol):
    """Leaves what comes for the TLS that takes over."""

    def connection_made(self, transport: Any) -> None:
        transport.pause_reading()


def _context() -> ssl.SSLContext:
    return ssl.create_default_context()
