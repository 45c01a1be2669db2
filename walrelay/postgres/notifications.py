"""Notifications of a channel, waited for on a connection that answers questions as well."""

import os
import select
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from time import monotonic
from typing import Any

from walrelay.postgres.catalog import Catalog
from walrelay.postgres.failures import ConnectionBroke, connection_broke

_FLOOD = 20_000  # notifications in a second; a thousand relays of one database send a tenth of it
_ONE = (1).to_bytes(8, sys.byteorder)


class Bell:
    """A descriptor that is readable from `ring` until `silence`; any thread may call either."""

    def __init__(self) -> None:
        if hasattr(os, "eventfd"):  # a pipe takes two descriptors
            self._reading = self._writing = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        else:
            self._reading, self._writing = os.pipe()
            os.set_blocking(self._reading, False)
            os.set_blocking(self._writing, False)

    def ring(self) -> None:
        with suppress(BlockingIOError):  # it rings already
            os.write(self._writing, _ONE)

    def wait(self, seconds: float) -> None:
        """Until it rings, or for so long; silences it."""
        poll = select.poll()
        poll.register(self._reading, select.POLLIN)
        poll.poll(seconds * 1000)
        self.silence()

    def silence(self) -> None:
        with suppress(BlockingIOError):
            while os.read(self._reading, 4096):
                pass

    def fileno(self) -> int:
        return self._reading

    def __del__(self) -> None:
        for descriptor in {self._reading, self._writing}:
            os.close(descriptor)


Listener = Callable[[str, str], bool]
"""Gets channel and text of each notification as it arrives; returns whether that ends a wait. Any role that may connect
can send any text, so a listener keeps no more than its own state.
"""


class Flooded(Exception):
    """So many notifications come that questions on this connection would wait for them; it is to be closed."""


class Notifications:
    """Passes on what is notified on some channels, from now on. Nothing is kept here."""

    def __init__(self, catalog: Catalog, channels: Iterable[str], bell: Bell, listener: Listener) -> None:
        """`channels`: identifiers. `bell`: ends a wait early."""
        self._catalog, self._connection, self._bell, self._listener = catalog, catalog.connection, bell, listener
        self._came = False  # something that ends a wait
        self._count, self._counted_from = 0, monotonic()
        self._connection.add_notify_handler(self._heard)  # for those that come with the answer to a question
        catalog.run("; ".join(f"LISTEN {channel}" for channel in channels))
        self._poll = select.poll()
        self._poll.register(self._connection.pgconn.socket, select.POLLIN)
        self._poll.register(bell.fileno(), select.POLLIN)

    def wait(self, seconds: float | None) -> None:
        """Returns when the listener has heard something, when the bell rings, or then. Disconnected when the connection
        is lost; Flooded.
        """
        if not self._came:
            self._poll.poll(None if seconds is None else seconds * 1000)
            self._bell.silence()
            try:
                pgconn = self._connection.pgconn
                pgconn.consume_input()
                while (notify := pgconn.notifies()) is not None:
                    self._pass_on(_text(notify.relname), _text(notify.extra))
            except ConnectionBroke as cause:
                raise connection_broke(cause) from cause
        self._came = False
        self._refuse_flood()

    def end(self, channels: Iterable[str]) -> None:
        """For a connection that serves for something else afterwards."""
        self._connection.remove_notify_handler(self._heard)
        if not self._connection.closed:
            self._catalog.run("; ".join(f"UNLISTEN {channel}" for channel in channels))

    def _heard(self, notify: Any) -> None:
        self._pass_on(notify.channel, notify.payload)

    def _pass_on(self, channel: str, text: str) -> None:
        self._count += 1
        if self._listener(channel, text):
            self._came = True

    def _refuse_flood(self) -> None:
        now = monotonic()
        if self._count > _FLOOD * max(1.0, now - self._counted_from):
            raise Flooded
        if now - self._counted_from >= 1.0:
            self._count, self._counted_from = 0, now


def _text(name: bytes) -> str:
    return name.decode(errors="replace")
