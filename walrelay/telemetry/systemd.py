"""Tells systemd that the process is ready, alive, or stopping, and what it does: sd_notify(3)."""

import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from threading import Event, Thread
from time import monotonic
from typing import Self

from walrelay.observe import Noticed, Observer
from walrelay.telemetry.health import RelayHealth, health
from walrelay.telemetry.instruments import RelayView

NOTIFY_SOCKET = "NOTIFY_SOCKET"
_INTERVAL = 5.0  # seconds between two looks, if no watchdog wants more
_LONGEST = 500  # characters of a status
_AT_FIRST = 0.1  # the same until the process is ready


def watchdog_of(env: Mapping[str, str]) -> float:
    """After how many seconds without a word systemd ends the process; 0: never."""
    given = env.get("WATCHDOG_USEC", "")
    return int(given) / 1e6 if given.isascii() and given.isdigit() else 0.0


class SystemdNotifier:
    """Looks at the relays from a thread of its own. The watchdog is fed as long as every loop turns; also where that
    cannot be found out, because whoever only watches must not end what it watches.
    """

    def __init__(
        self, env: Mapping[str, str], views: Callable[[], Sequence[RelayView]], stall_after: float, observer: Observer
    ) -> None:
        """`env` has what systemd sets: NOTIFY_SOCKET and, with a watchdog, WATCHDOG_USEC. `views` must not wait.
        `observer`: the process's own.
        """
        name = env[NOTIFY_SOCKET]
        self._address = "\0" + name[1:] if name.startswith("@") else name
        watchdog = watchdog_of(env)
        self._stall_after, self._interval = stall_after, min(_INTERVAL, watchdog / 3) if watchdog else _INTERVAL
        self._views, self._observer, self._ready, self._said = views, observer, False, ""
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        self._socket.setblocking(False)
        self._ended = Event()
        self._thread = Thread(target=self._watch, name="systemd", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._send("STOPPING=1")
        self._socket.close()

    def _watch(self) -> None:
        while not self._ended.wait(self._interval if self._ready else min(_AT_FIRST, self._interval)):
            alive = True
            try:
                alive = self._look()
            except Exception as error:
                self._observer.saw(Noticed(f"systemd cannot be told: {type(error).__name__}: {error}"))
            if alive:
                self._send("WATCHDOG=1")

    def _look(self) -> bool:
        """Whether all are alive."""
        now = monotonic()
        relays = [health(view, now, self._stall_after) for view in self._views()]
        if not self._ready and relays and all(each.started for each in relays):
            self._ready = self._send("READY=1")
        status = _status(relays)
        if status != self._said and self._send(f"STATUS={status}"):
            self._said = status
        return all(each.alive for each in relays)

    def _send(self, text: str) -> bool:
        with suppress(OSError):  # systemd is busy, or not there: the next one may get through
            self._socket.sendto(text.encode(errors="backslashreplace"), self._address)
            return True
        return False


def _status(relays: Sequence[RelayHealth]) -> str:
    """One line, whatever an error says: the next line would be another message."""
    return " ".join(_told(relays).split())[:_LONGEST]


def _told(relays: Sequence[RelayHealth]) -> str:
    """One line: what the only relay does, or how many are well and what is wrong with the first that is not."""
    unwell = [each for each in relays if not each.ready]
    if len(relays) == 1:
        only = relays[0]
        return f"{only.state}" + (f", waits for {only.waits_for}: {only.why}" if unwell else "")
    if not unwell:
        return f"{len(relays)} relays are well"
    first = unwell[0]
    return f"{len(unwell)} of {len(relays)} relays are not well; {first.relay}: {first.state}, {first.why}"
