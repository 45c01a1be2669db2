"""A PgBouncer of the tests' own, in front of a PostgreSQL server."""

import shutil
import signal
from collections.abc import Sequence
from pathlib import Path

import psycopg

from tests.servers.choose import Missing
from tests.servers.ports import LOOPBACK
from tests.servers.single import SingleServer
from walrelay.lab.servers.backstage import unprivileged


def pgbouncer_program() -> Path:
    """Missing where it is not installed; Debian keeps it out of an ordinary user's path."""
    found = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
    if found is None:
        raise Missing("PgBouncer is not installed")
    return Path(found)


class PgBouncer(SingleServer):
    """Runs as an unprivileged account. `settings` are further lines of its configuration."""

    NAME = "PgBouncer"
    PATIENT_WITH = psycopg.OperationalError
    LAST_SIGNAL = signal.SIGTERM  # at once, whoever is connected

    def __init__(self, program: Path, host: str, port: int, user: str, password: str, *settings: str) -> None:
        super().__init__(program, unprivileged())
        self._log.touch()
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

    def _arguments(self) -> Sequence[str | Path]:
        return [self._config]

    def _answers(self) -> bool:
        with psycopg.connect(self.dsn("postgres")):
            return True
