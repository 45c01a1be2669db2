"""A PgBouncer of the tests' own, in front of a PostgreSQL server."""

import shutil
import signal
from pathlib import Path
from typing import Self

import psycopg

from tests.servers.choose import Missing
from tests.servers.ports import LOOPBACK, free_port
from tests.servers.process import ServerProcess, temporary_directory, unprivileged_account
from tests.servers.waiting import wait_until


def pgbouncer_program() -> Path:
    """Missing where it is not installed; Debian keeps it out of an ordinary user's path."""
    found = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
    if found is None:
        raise Missing("PgBouncer is not installed")
    return Path(found)


class PgBouncer:
    """Runs as an unprivileged account from when it is entered. `settings` are further lines of its configuration."""

    def __init__(self, program: Path, host: str, port: int, user: str, password: str, *settings: str) -> None:
        self.port = free_port()
        self._program = program
        self._account = unprivileged_account()
        self._home = temporary_directory("pgbouncer", self._account)
        self._log = self._home / "log"
        self._log.touch()
        self._process: ServerProcess | None = None
        lines = [
            "[databases]",
            f"* = host={host} port={port} user={user}" + (f" password='{password}'" if password else ""),
            "[pgbouncer]",
            f"listen_addr = {LOOPBACK}",
            f"listen_port = {self.port}",
            "unix_socket_dir =",
            "auth_type = any",
            "pool_mode = transaction",
            *settings,
        ]
        self._config = self._home / "pgbouncer.ini"
        self._config.write_text("\n".join(lines) + "\n")
        self._config.chmod(0o644)

    def dsn(self, database: str) -> str:
        return f"postgresql://anyone@{LOOPBACK}:{self.port}/{database}"

    def __enter__(self) -> Self:
        self._process = ServerProcess(
            [self._program, self._config],
            log=self._log,
            cwd=self._home,
            last_signal=signal.SIGTERM,
            account=self._account,
        )
        wait_until(self._answers, 10, "PgBouncer to answer", ignoring=psycopg.OperationalError)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        self._process.signal(signal.SIGTERM)  # at once, whoever is connected
        self._process.wait(10)
        shutil.rmtree(self._home, ignore_errors=True)

    def _answers(self) -> bool:
        assert self._process is not None
        if not self._process.running:
            raise RuntimeError(f"PgBouncer ended while starting:\n{self._log.read_text()}")
        with psycopg.connect(self.dsn("postgres")):
            return True
