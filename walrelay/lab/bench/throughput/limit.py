"""The reader that all others are compared with: PostgreSQL's own client, which throws away what it gets."""

import json
import os
import shutil
import signal
import time
from pathlib import Path

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from walrelay import compose, config
from walrelay.config import Settings
from walrelay.errors import Fatal
from walrelay.lab.bench.throughput import procfs
from walrelay.lab.bench.throughput.backlog import Backlog
from walrelay.lab.bench.throughput.medians import Reading
from walrelay.lab.bench.throughput.readers import Peak, Place, Walsender, document, finished


class Limit:
    """PostgreSQL's own client, which writes what it gets to /dev/null and waits for nothing."""

    def __init__(self, program: Path, *, binary: bool) -> None:
        self._program, self._binary = program, binary

    def read(self, place: Place) -> Reading:
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
        peak_rss = peak.bytes or procfs.maximum_rss_bytes(usage)
        return Reading(backlog.events, seconds, cpu_s, sender.cpu_s, peak_rss)

    def _command(self, backlog: Backlog, slot: str) -> tuple[list[str | Path], dict[str, str]]:
        """With the options that the relay gives the plugin, made by the relay's own code; and its environment."""
        like = settings(slot, backlog.dsn, binary=self._binary)
        options = compose.plugin_options(like, binary=compose.binary_suits(like, backlog.catalog))
        dsn, secret = without_password(backlog.dsn)
        command: list[str | Path] = [
            *(self._program, "--dbname", dsn, "--slot", slot, "--start", "--no-loop"),
            *("--file", os.devnull, "--endpos", str(backlog.end)),
            *(part for name, value in options for part in ("--option", f"{name}={value}")),
        ]
        return command, secret


def settings(slot: str, dsn: str, *, binary: bool) -> Settings:
    """As the relay of a reading has them; into which sink is no matter."""
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
