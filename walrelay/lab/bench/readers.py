"""The readers of the backlog: the relay into any sink, pg_recvlogical, and a worker that polls a table."""

import json
import os
import shutil
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from resource import struct_rusage
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol
from urllib.request import urlopen

import psutil
import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from walrelay import compose, config
from walrelay.config import Settings
from walrelay.errors import Fatal
from walrelay.lab.bench.backlog import PUBLICATION, SCHEMA, TABLE, TOPIC, Backlog
from walrelay.lab.bench.child import maximum_rss_bytes, peak_rss_bytes
from walrelay.lab.bench.machine import cpu_s, title
from walrelay.lab.brokers.contract import LabBroker
from walrelay.lab.servers.backstage import Backstage, Child, waited
from walrelay.postgres import connect
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.failures import first_line

_INTERVAL = 0.004  # seconds between two looks at what a process has used
_LEAST_RATE = 1000  # events a second; a reader that is slower is taken to hang
_MARGIN = 60.0  # seconds
_LAGS = 10.0  # seconds that what a broker says of itself may be behind what it has


class Reading(NamedTuple):
    """The result of one reader that drained the backlog once. The walsender's CPU is None where it cannot be seen."""

    events: int
    seconds: float
    cpu_s: float
    walsender_cpu_s: float | None
    peak_rss_bytes: int


class ReadingPlace(NamedTuple):
    """Where readings take place."""

    backstage: Backstage
    backlog: Backlog


class Reader(Protocol):
    def read(self, place: ReadingPlace) -> Reading:
        """Once through the backlog, from its beginning."""
        ...


class MeasuredRelay:
    """walrelay in a process of its own. `sink` is that section of its settings."""

    def __init__(
        self,
        name: str,
        sink: Mapping[str, Any],
        *,
        plugin: str = "pgoutput",
        binary: bool,
        environment: Mapping[str, str] = MappingProxyType({}),
        delivery: str = "at_least_once",
        metrics: bool = False,
    ) -> None:
        self._metrics = metrics
        self._name, self._sink, self._plugin, self._binary = name, sink, plugin, binary
        self._environment, self._delivery = environment, delivery

    def read(self, place: ReadingPlace) -> Reading:
        backlog = place.backlog
        with backlog.slot(self._plugin) as slot:
            file = place.backstage.home / "drain.json"
            settings = document(slot, self._sink, self._plugin, binary=self._binary)
            sender, scrapes = Walsender(backlog.catalog, slot), Scrapes()
            looks = (sender.look, scrapes.look) if self._metrics else (sender.look,)
            listen = {"http": {"listen": scrapes.address}} if self._metrics else {}
            file.write_text(json.dumps({**settings, "delivery": self._delivery, **listen}))
            found = drained(
                place,
                self._name,
                ["walrelay.lab.bench.drain", str(file), str(backlog.end)],
                self._environment,
                *looks,
            )
        if self._metrics and not scrapes.done:
            raise Fatal("the relay's metrics were not scraped once, so what they cost was not measured")
        return found._replace(walsender_cpu_s=sender.cpu_s)


class IntoBroker:
    """walrelay into a broker whose topic is empty before, and which must have every event after."""

    def __init__(self, broker: LabBroker, complain: Callable[[str], None], *, binary: bool) -> None:
        self._broker, self._complain = broker, complain
        sink, environment = broker.sink(TOPIC), broker.environment
        self._relay = MeasuredRelay("the relay", sink, binary=binary, environment=environment)

    def read(self, place: ReadingPlace) -> Reading:
        with self._broker.topic(TOPIC, self._complain):
            reading = self._relay.read(place)
            if not waited(lambda: self._broker.held(TOPIC) >= reading.events, _LAGS):
                held = self._broker.held(TOPIC)
                raise Fatal(f"{self._broker.name} has {held:,} of {reading.events:,} events that it confirmed")
        return reading


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
            self._visible = self._pid is None or is_walsender(self._pid)
        if self._pid is not None and self._visible:
            self.cpu_s = cpu_s(self._pid) or self.cpu_s


def is_walsender(pid: int) -> bool:
    """The pid may be that of a process elsewhere, or in a container."""
    try:
        return "walsender" in title(psutil.Process(pid))
    except psutil.Error:
        return False


class Scrapes:
    """Asks for metrics once a second, which is more often than Prometheus does."""

    def __init__(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        self.done, self._due = 0, 0.0

    def look(self) -> None:
        if time.monotonic() >= self._due:
            with suppress(OSError), urlopen(f"http://{self.address}/metrics", timeout=10) as answer:
                self.done += bool(answer.read())
                self._due = time.monotonic() + 1.0


class Peak:
    """The most memory that a process had, up to the last look while it ran."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.bytes = 0

    def look(self) -> None:
        self.bytes = peak_rss_bytes(self._pid) or self.bytes


def drained(
    place: ReadingPlace,
    name: str,
    module: Sequence[str],
    environment: Mapping[str, str],
    *looks: Callable[[], None],
) -> Reading:
    """What a module that drains finds, in a process of its own; its name comes first, then its arguments."""
    child = place.backstage.start(
        name,
        [sys.executable, "-m", *module],
        last_signal=signal.SIGTERM,
        environment={**os.environ, "DATABASE_URL": place.backlog.dsn, **environment},
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


class Limit:
    """PostgreSQL's own client, which writes what it gets to /dev/null and waits for nothing."""

    def __init__(self, program: Path, *, binary: bool) -> None:
        self._program, self._binary = program, binary

    def read(self, place: ReadingPlace) -> Reading:
        backlog = place.backlog
        with backlog.slot() as slot:
            command, environment = self._command(backlog, slot)
            child = place.backstage.start(
                "pg_recvlogical", command, last_signal=signal.SIGTERM, environment={**os.environ, **environment}
            )
            began = time.monotonic()
            sender, peak = Walsender(backlog.catalog, slot), Peak(child.pid)
            usage = finished(child, backlog.events, sender.look, peak.look)
            seconds = time.monotonic() - began
            if (confirmed := backlog.confirmed(slot)) < backlog.end:
                raise child.failure(f"ended at {confirmed} of {backlog.end}")
        cpu_s = usage.ru_utime + usage.ru_stime
        peak_rss = peak.bytes or maximum_rss_bytes(usage)
        return Reading(backlog.events, seconds, cpu_s, sender.cpu_s, peak_rss)

    def _command(self, backlog: Backlog, slot: str) -> tuple[list[str | Path], dict[str, str]]:
        """The command, with the plugin options as the relay's own code makes them, and its environment."""
        like = compose.wiring(settings(slot, backlog.dsn, binary=self._binary))
        options = like.options(binary=like.binary_suits(backlog.catalog))
        dsn, secret = without_password(backlog.dsn)
        command: list[str | Path] = [
            *(self._program, "--dbname", dsn, "--slot", slot, "--start", "--no-loop"),
            *("--file", os.devnull, "--endpos", str(backlog.end)),
            *(part for name, value in options for part in ("--option", f"{name}={value}")),
        ]
        return command, secret


def settings(slot: str, dsn: str, *, binary: bool) -> Settings:
    """The settings of a measured relay; the sink does not matter."""
    text = json.dumps(document(slot, {"kind": "memory"}, binary=binary))
    return config.parse(text, "drain.json", {"DATABASE_URL": dsn})


def without_password(dsn: str) -> tuple[str, dict[str, str]]:
    """The DSN for a command line, which everybody on the machine can read, and the environment that it needs."""
    parts = {name: str(value) for name, value in conninfo_to_dict(dsn).items() if value is not None}
    password = parts.pop("password", None)
    return make_conninfo("", **parts), {"PGPASSWORD": password} if password else {}


def pg_recvlogical(*directories: Path | None) -> Path:
    """In one of the directories, or on PATH; Fatal when it is not there."""
    for directory in directories:
        if directory is not None and (directory / "pg_recvlogical").is_file():
            return directory / "pg_recvlogical"
    if found := shutil.which("pg_recvlogical"):
        return Path(found)
    raise Fatal("there is no pg_recvlogical, neither beside PostgreSQL's programs nor on PATH")


POLLED = f"{SCHEMA}.polled"

# The index is what a polling worker should have: of the rows that are due, in their order.
_MAKE = f"""
DROP TABLE IF EXISTS {POLLED};
CREATE TABLE {POLLED} (
    LIKE {TABLE} INCLUDING ALL, number bigint GENERATED ALWAYS AS IDENTITY, published_at timestamptz
);
CREATE INDEX ON {POLLED} (number) WHERE published_at IS NULL;
"""
_FILL = f"""
INSERT INTO {POLLED} (aggregate_type, aggregate_id, type, payload)
SELECT aggregate_type, aggregate_id, type, payload FROM {TABLE} LIMIT %s
"""


class Polling:
    """walrelay.lab.bench.polling without its pauses. `events`: how many of the backlog's it is given."""

    def __init__(self, events: int, environment: Mapping[str, str]) -> None:
        self._events, self._environment = events, environment

    def read(self, place: ReadingPlace) -> Reading:
        self._fill(place.backlog.dsn)
        return drained(
            place, "the polling worker", ["walrelay.lab.bench.polling", POLLED, TOPIC, "--drain"], self._environment
        )

    def _fill(self, dsn: str) -> None:
        with connect.ordinary(dsn, statement_timeout=600) as connection:
            try:
                connection.execute(_MAKE.encode())
                connection.execute(_FILL.encode(), (self._events,))
                connection.execute(f"VACUUM ANALYZE {POLLED}".encode())
            except psycopg.Error as cause:
                raise Fatal(f"the polling worker's table could not be filled: {first_line(cause)}") from cause
