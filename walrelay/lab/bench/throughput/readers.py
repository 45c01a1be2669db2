"""What a reader of the backlog is, the relay into any sink as one, and how readers are watched while they read."""

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from resource import struct_rusage
from typing import Any, NamedTuple, Protocol

from walrelay.lab.bench.throughput import procfs
from walrelay.lab.bench.throughput.backlog import PUBLICATION, TABLE, Backlog
from walrelay.lab.bench.throughput.medians import Reading
from walrelay.lab.servers.backstage import Backstage, Child
from walrelay.postgres.catalog import Catalog

_INTERVAL = 0.004  # seconds between two looks at what a process has used
_LEAST_RATE = 1000  # events a second; a reader that is slower is taken to hang
_MARGIN = 60.0  # seconds


class Place(NamedTuple):
    """Where readings take place."""

    backstage: Backstage
    backlog: Backlog


class Reader(Protocol):
    def read(self, place: Place) -> Reading:
        """Once through the backlog, from its beginning."""
        ...


class Relay:
    """walrelay in a process of its own. `sink` is that section of its settings."""

    def __init__(
        self,
        name: str,
        sink: Mapping[str, Any],
        *,
        plugin: str = "pgoutput",
        binary: bool,
        bootstrap: str = "",
        delivery: str = "at_least_once",
    ) -> None:
        self._name, self._sink, self._plugin, self._binary, self._bootstrap = name, sink, plugin, binary, bootstrap
        self._delivery = delivery

    def read(self, place: Place) -> Reading:
        backlog = place.backlog
        with backlog.slot(self._plugin) as slot:
            file = place.backstage.home / "drain.json"
            settings = document(slot, self._sink, self._plugin, binary=self._binary)
            file.write_text(json.dumps({**settings, "delivery": self._delivery}))
            sender = Walsender(backlog.catalog, slot)
            found = drained(
                place,
                self._name,
                ["walrelay.lab.bench.throughput.drain", str(file), str(backlog.end)],
                self._bootstrap,
                sender.look,
            )
        return found._replace(walsender_cpu_s=sender.cpu_s)


class Walsender:
    """The CPU time of whoever serves a slot, up to the last look while it was there."""

    def __init__(self, catalog: Catalog, slot: str) -> None:
        self._catalog, self._slot = catalog, slot
        self._pid: int | None = None
        self._visible = True
        self.cpu_s: float | None = None

    def look(self) -> None:
        if self._pid is None and self._visible:
            slot = self._catalog.slot(self._slot)
            self._pid = slot.active_pid if slot else None
            self._visible = self._pid is None or procfs.is_walsender(self._pid)
        if self._pid is not None and self._visible:
            self.cpu_s = procfs.cpu_s(self._pid) or self.cpu_s


class Peak:
    """The most memory that a process had, up to the last look while it ran."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.bytes = 0

    def look(self) -> None:
        self.bytes = procfs.peak_rss_bytes(self._pid) or self.bytes


def drained(place: Place, name: str, module: Sequence[str], bootstrap: str, *looks: Callable[[], None]) -> Reading:
    """What a module that drains finds, in a process of its own; its name comes first, then its arguments."""
    servers = {"DATABASE_URL": place.backlog.dsn, "KAFKA_BOOTSTRAP_SERVERS": bootstrap}
    child = place.backstage.start(
        name,
        [sys.executable, "-m", *module],
        last_signal=signal.SIGTERM,
        environment={**os.environ, **servers},
        output=True,
    )
    finished(child, place.backlog.events, *looks)
    return Reading(walsender_cpu_s=None, **json.loads(child.output.read()))


def finished(child: Child, events: int, *looks: Callable[[], None]) -> struct_rusage:
    """What the child used, once it has ended well; meanwhile others look on. However it goes, the child is gone."""
    deadline = time.monotonic() + _MARGIN + events / _LEAST_RATE
    try:
        while time.monotonic() < deadline:
            pid, status, usage = os.wait4(child.pid, os.WNOHANG)
            if pid and status:
                raise child.failure("failed")
            if pid:
                return usage
            for look in looks:
                look()
            time.sleep(_INTERVAL)
        raise child.failure("did not come to the end of the backlog")
    finally:
        child.end(signal.SIGTERM)


def document(slot: str, sink: Mapping[str, Any], plugin: str = "pgoutput", *, binary: bool) -> Mapping[str, Any]:
    """A settings file; whatever is not named has walrelay's default."""
    return {
        "source": {
            "dsn": "${DATABASE_URL}",
            "slot": slot,
            "publication": PUBLICATION,
            "plugin": plugin,
            "binary": binary,
        },
        "outbox": {"table": TABLE},
        "route": {"topic": "walrelay.bench.{aggregate_type}"},
        "sink": sink,
    }
