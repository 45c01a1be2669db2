"""One word for systemd from several processes: if one of them said that it stops, systemd would stop all."""

import socket
import struct
from collections.abc import Iterable, Iterator, MutableMapping
from contextlib import suppress
from math import inf

from walrelay.telemetry.systemd import NOTIFY_SOCKET, watchdog_of

_CREDENTIALS = "3i"  # pid, uid, gid
_LONGEST = 500  # characters of a status


class UnitNotifier:
    """The parent's. Its processes tell it what they would tell systemd, and it tells systemd what holds of all: ready
    when each is, alive as long as each is.
    """

    def __init__(self, systemd: str, env: MutableMapping[str, str]) -> None:
        """`systemd`: where it listens; `env` is what the processes will have."""
        self._systemd, self._socket = systemd, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self._socket.bind("")  # Linux chooses a name
        env[NOTIFY_SOCKET] = "@" + self._socket.getsockname()[1:].decode()
        self._ready, self._fed, self._status = set[int](), set[int](), dict[int, str]()
        self._said_ready, self._said = False, ""
        self.interval = watchdog_of(env) / 3 or inf
        """Seconds between two calls of `hear`."""

    def fileno(self) -> int:
        """Becomes readable when a process says something."""
        return self._socket.fileno()

    def hear(self, running: Iterable[int], *, all_begun: bool) -> None:
        """To be called now and then, with the PIDs of those that run. `all_begun`: whether each of the others did."""
        running = {*running}
        for pid, text in self._datagrams():
            name, _, value = text.partition("=")
            if name == "READY":
                self._ready.add(pid)
            elif name == "WATCHDOG":
                self._fed.add(pid)
            elif name == "STATUS":
                self._status[pid] = value
        self._status = {pid: text for pid, text in self._status.items() if pid in running}
        if not self._said_ready and all_begun and running <= self._ready:
            self._said_ready = self._tell("READY=1")
        if running <= self._fed:
            self._fed.clear()
            self._tell("WATCHDOG=1")
        status = "; ".join(self._status.values())[:_LONGEST]
        if status != self._said and self._tell(f"STATUS={status}"):
            self._said = status

    def stopping(self) -> None:
        self._tell("STOPPING=1")

    def _datagrams(self) -> Iterator[tuple[int, str]]:
        with suppress(BlockingIOError):
            while True:
                data, ancillary, _, _ = self._socket.recvmsg(4096, socket.CMSG_SPACE(struct.calcsize(_CREDENTIALS)))
                for _, kind, sender in ancillary:
                    if kind == socket.SCM_CREDENTIALS:
                        yield struct.unpack(_CREDENTIALS, sender)[0], data.decode(errors="replace")

    def _tell(self, text: str) -> bool:
        name = self._systemd
        with suppress(OSError):
            self._socket.sendto(text.encode(), "\0" + name[1:] if name.startswith("@") else name)
            return True
        return False
