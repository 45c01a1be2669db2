"""A connection that is made again when it breaks, after a pause that grows while no attempt gets anywhere.

Each connection has a loop of its own, which ends with it: no timer, task or answer of one reaches the next. The
descriptor stays, because the relay waits for it.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from selectors import DefaultSelector
from time import monotonic
from typing import Any

from walrelay.errors import Fatal, Retryable, StartAnew, WalrelayError
from walrelay.sinks.hosting.circuit import backed_off
from walrelay.sinks.hosting.contract import Connect, HostedConnection
from walrelay.sinks.hosting.loop import PumpedLoop

ENDS = Fatal, StartAnew
"""What no other connection can cure."""


class LastingSelector(DefaultSelector):
    """One descriptor for one loop after the other: a loop that ends leaves it empty, and open."""

    def close(self) -> None:
        for key in [*self.get_map().values()]:
            self.unregister(key.fileobj)

    def let_go(self) -> None:
        super().close()


class Link:
    """Owned by a sink, and moves while it is pumped. `opened` is called as soon as a connection can send."""

    connection: HostedConnection
    loop: PumpedLoop

    def __init__(self, connect: Connect, broker: str, seconds: float, opened: Callable[[], None]) -> None:
        """`seconds`: how long an attempt to connect may take."""
        self._connect, self._broker, self._seconds, self._opened = connect, broker, seconds, opened
        self._selector = LastingSelector()
        self._failures = 0  # connections in a row that got nowhere
        self._begins = 0.0  # when the next attempt does
        self._since = 0.0  # when the connection was made
        self.why = ""
        """Why the last connection broke; empty once a broker has answered since."""
        self.broken: WalrelayError | None = None
        """Why this connection is of no use any more."""
        self._make()

    def _make(self) -> None:
        self.loop = loop = PumpedLoop(self._selector)
        self.connected = self.opening = False
        self.broken = None
        loop.set_exception_handler(self._raised)
        self.connection = self._connect(loop, partial(self._failed, loop))

    @property
    def away(self) -> bool:
        """Whether there is no connection, and none is being made."""
        return not (self.connected or self.opening)

    def pump(self, timeout: float) -> None:
        """Does what there is to do, and waits for more for up to `timeout` seconds."""
        if self.connected:
            self.connection.push()
        elif not self.opening:
            left = self._begins - monotonic()
            if left <= 0:
                self.opening = True
                self.loop.start(self._open())
            else:
                timeout = min(timeout, left)
        self.loop.pump(timeout)

    def fail(self, why: WalrelayError) -> None:
        """The connection is of no use any more."""
        if self.broken is None or isinstance(why, ENDS):
            self.broken = why
        self.loop.wake()

    def heard(self) -> None:
        """The broker has answered: an attempt to connect again would not be in vain."""
        self.why, self._failures = "", 0

    def renew(self, why: WalrelayError) -> None:
        """Lets this connection go; the first pump after the pause opens another. Not to be called inside the loop."""
        now = monotonic()
        if self.connected and now - self._since > backed_off(self._failures or 1):
            self._failures = 0
        self._failures += 1
        self._begins, self.why = now + backed_off(self._failures), str(why)
        self._end()
        self._make()

    def close(self) -> None:
        """Never raises."""
        self._end()
        self._selector.let_go()

    def _end(self) -> None:
        self.connection.close()
        self.loop.let_go()

    def _failed(self, loop: PumpedLoop, why: WalrelayError) -> None:
        if loop is self.loop:
            self.fail(why)

    def _raised(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """A callback of the client did."""
        why = context.get("exception")
        what = f"{type(why).__name__}: {why}" if why is not None else context.get("message", "")
        if loop is self.loop:
            self.fail(Retryable(f"the client of {self._broker} failed: {what}"))

    async def _open(self) -> None:
        loop = self.loop
        try:
            async with asyncio.timeout(self._seconds):
                await self.connection.open()
            self.connected, self.opening, self._since = True, False, monotonic()
            self._opened()
            loop.wake()
        except WalrelayError as why:
            self._failed(loop, why)
        except TimeoutError:
            self._failed(loop, Retryable(f"{self._broker} has not let us connect within {self._seconds:g} s"))
        except Exception as why:
            self._failed(loop, Retryable(f"{self._broker} cannot be reached: {type(why).__name__}: {why}"))
