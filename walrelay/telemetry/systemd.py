"""Tells systemd that the process is ready, alive, or stopping, and what it does: sd_notify(3)."""

import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from threading import Event, Thread
from time import monotonic
from typing import Self

from walrelay.telemetry.health import RelayHealth, health
from walrelay.telemetry.instruments import RelayView

_INTERVAL = 5.0  # seconds between two looks, if no watchdog wants more
_AT_FIRST = 0.1  # the same until the process is ready


class SystemdNotifier:
    """Looks at the relays from a thread of its own. The watchdog is fed as long as every loop turns."""

    def __init__(self, env: Mapping[str, str], views: Callable[[], Sequence[RelayView]], stall_after: float) -> None:
        """`env` has what systemd sets: NOTIFY_SOCKET and, with a watchdog, WATCHDOG_USEC. `views` must not wait."""
        name = env["NOTIFY_SOCKET"]
        self._address = "\0" + name[1:] if name.startswith("@") else name
        watchdog = int(env["WATCHDOG_USEC"]) / 1e6 if env.get("WATCHDOG_USEC", "").isdigit() else None
        self._stall_after = min(stall_after, watchdog or stall_after)
        self._interval = min(_INTERVAL, watchdog / 3 if watchdog else _INTERVAL)
        self._views, self._ready, self._said = views, False, ""
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
        while not self._ended.wait(self._interval if self._ready else _AT_FIRST):
            now = monotonic()
            relays = [health(view, now, self._stall_after) for view in self._views()]
            if not self._ready and relays and all(each.started for each in relays):
                self._ready = self._send("READY=1")
            if all(each.alive for each in relays):
                self._send("WATCHDOG=1")
            status = _status(relays)
            if status != self._said and self._send(f"STATUS={status}"):
                self._said = status

    def _send(self, text: str) -> bool:
        with suppress(OSError):  # systemd is busy, or not there: the next one may get through
            self._socket.sendto(text.encode(), self._address)
            return True
        return False


def _status(relays: Sequence[RelayHealth]) -> str:
    """One line: what the only relay does, or how many are well and what is wrong with the first that is not."""
    unwell = [each for each in relays if not each.ready]
    if len(relays) == 1:
        only = relays[0]
        return f"{only.state}" + (f", waits for {only.waits_for}: {only.why}" if unwell else "")
    if not unwell:
        return f"{len(relays)} relays are well"
    first = unwell[0]
    return f"{len(unwell)} of {len(relays)} relays are not well; {first.relay}: {first.state}, {first.why}"
