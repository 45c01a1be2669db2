"""Notifications of a channel, waited for on a connection that answers questions as well."""

import os
import select
import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, NamedTuple

from walrelay.postgres.catalog import Catalog
from walrelay.postgres.failures import ConnectionBroke, connection_broke

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

    def silence(self) -> None:
        with suppress(BlockingIOError):
            while os.read(self._reading, 4096):
                pass

    def fileno(self) -> int:
        return self._reading

    def __del__(self) -> None:
        for descriptor in {self._reading, self._writing}:
            os.close(descriptor)


class Notification(NamedTuple):
    """Anybody who may connect can send one."""

    channel: str
    text: str


class Notifications:
    """What is notified on some channels, from now on."""

    def __init__(self, catalog: Catalog, channels: Iterable[str], bell: Bell) -> None:
        """`channels`: identifiers. `bell`: ends a wait early."""
        self._catalog, self._connection, self._bell = catalog, catalog.connection, bell
        self._came = dict[Notification, None]()
        self._connection.add_notify_handler(self._heard)  # for those that come with the answer to a question
        catalog.run("; ".join(f"LISTEN {channel}" for channel in channels))
        self._poll = select.poll()
        self._poll.register(self._connection.pgconn.socket, select.POLLIN)
        self._poll.register(bell.fileno(), select.POLLIN)

    def wait(self, seconds: float | None) -> list[Notification]:
        """Those that came since the last call, each once; returns early when the bell rings. Disconnected when the
        connection is lost.
        """
        if not self._came:
            self._poll.poll(None if seconds is None else seconds * 1000)
            self._bell.silence()
            try:
                pgconn = self._connection.pgconn
                pgconn.consume_input()
                while (notify := pgconn.notifies()) is not None:
                    self._came[Notification(_text(notify.relname), _text(notify.extra))] = None
            except ConnectionBroke as cause:
                raise connection_broke(cause) from cause
        came, self._came = self._came, {}
        return [*came]

    def end(self, channels: Iterable[str]) -> None:
        """For a connection that serves for something else afterwards."""
        self._connection.remove_notify_handler(self._heard)
        if not self._connection.closed:
            self._catalog.run("; ".join(f"UNLISTEN {channel}" for channel in channels))

    def _heard(self, notify: Any) -> None:
        self._came[Notification(notify.channel, notify.payload)] = None


def _text(name: bytes) -> str:
    return name.decode(errors="replace")
