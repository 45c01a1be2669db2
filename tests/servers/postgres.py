"""A PostgreSQL cluster of the tests' own, that they may stop, crash and configure."""

import shutil
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, Self

import psycopg
from psycopg import sql

from tests.servers.database import Postgres
from tests.servers.ports import LOOPBACK, free_port
from tests.servers.process import ServerProcess, memory, temporary_directory
from tests.servers.programs import within_reach_of
from tests.servers.waiting import wait_until
from walrelay.lab.servers.backstage import unprivileged
from walrelay.lab.servers.postgres import INITDB, Programs

Setting = str | int | float | bool | tuple[str, ...]
StopMode = Literal["smart", "fast", "immediate"]

_STOP_SIGNALS: dict[StopMode, signal.Signals] = {
    "smart": signal.SIGTERM,
    "fast": signal.SIGINT,
    "immediate": signal.SIGQUIT,
}


class PostgresServer(Postgres):
    """Made by initdb when created; runs between start() and stop(), or as a context manager. Needs no root."""

    def __init__(self, programs: Programs, settings: Mapping[str, Setting] | None = None) -> None:
        self._account = unprivileged()
        self._programs = within_reach_of(self._account, programs)
        self._major = programs.major
        self._home = temporary_directory("postgres", self._account, within=memory())
        self._data = self._home / "data"
        self._log = self._home / "log"
        self._log.touch()
        self._process: ServerProcess | None = None
        self.port = free_port()
        super().__init__(self.database("postgres"))
        self._make_data()
        self._write_settings(dict(settings or {}))

    @property
    def major(self) -> int:
        return self._major

    @property
    def has_wal2json(self) -> bool:
        return self._programs.has_wal2json

    @property
    def programs(self) -> Programs:
        """The installation that it is started from."""
        return self._programs

    @property
    def pid(self) -> int:
        """The postmaster's."""
        if self._process is None:
            raise RuntimeError("the server was never started, or stopped")
        return self._process.pid

    @property
    def data(self) -> Path:
        """The data directory."""
        return self._data

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.running

    def bin(self, name: str) -> Path:
        """A program of the server's version, such as pg_recvlogical."""
        return self._programs.bin / name

    def database(self, name: str) -> str:
        return f"postgresql://postgres@{LOOPBACK}:{self.port}/{name}"

    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def start(self, timeout: float = 30) -> None:
        """Returns when a connection succeeds: after a crash, that is after recovery."""
        if self.running:
            return
        self._process = ServerProcess(
            [self.bin("postgres"), "-D", self._data],
            log=self._log,
            cwd=self._home,
            last_signal=_STOP_SIGNALS["immediate"],
            account=self._account,
        )
        try:
            wait_until(self._answers, timeout, "PostgreSQL to answer", ignoring=psycopg.OperationalError)
        except AssertionError as error:
            error.add_note(self.log())
            raise

    def stop(self, mode: StopMode = "fast", timeout: float = 30) -> None:
        """Stop as `pg_ctl stop -m` does; raises subprocess.TimeoutExpired and lets it run on when it does not end.

        "immediate" ends all processes without a checkpoint: what a crash leaves behind.
        """
        if self._process is None or not self._process.running:
            return
        self._process.signal(_STOP_SIGNALS[mode])
        self._process.wait(timeout)
        self._process = None

    def restart(self, mode: StopMode = "fast", timeout: float = 30) -> None:
        self.stop(mode, timeout)
        self.start(timeout)

    def configure(self, *, restart: bool = False, **settings: Setting | None) -> None:
        """ALTER SYSTEM and a reload (a restart for those settings that need one, which the caller knows).

        A tuple is a list-valued setting, None goes back to the default. Returns when new sessions see the values.
        """
        for name, value in settings.items():
            setting = sql.Identifier(name)
            if value is None:
                query = sql.SQL("ALTER SYSTEM RESET {}").format(setting)
            else:
                # A list in ONE literal would be stored as a single name.
                values = value if isinstance(value, tuple) else (_written(value),)
                literals = sql.SQL(", ").join(sql.Literal(each) for each in values)
                query = sql.SQL("ALTER SYSTEM SET {} = {}").format(setting, literals)
            self.execute(query.as_string())
        if restart:
            self.restart()
            return
        ((loaded_before,),) = self.execute("SELECT pg_conf_load_time() FROM pg_reload_conf()")
        wait_until(
            lambda: self.execute("SELECT pg_conf_load_time() > %s", [loaded_before]) == [(True,)],
            10,
            "PostgreSQL to reload its settings",
        )

    def upgrade_from(self, old: "PostgresServer") -> None:
        """pg_upgrade from a server that is stopped; this one is, too, and was never started."""
        shutil.rmtree(self._data, ignore_errors=True)
        self._run("initdb", "--pgdata", self._data, "--no-instructions", *INITDB)
        self._write_settings({})
        bins, data = ("-b", old.programs.bin, "-B", self.programs.bin), ("-d", old.data, "-D", self._data)
        done = self._run("pg_upgrade", "-U", "postgres", *bins, *data, "-s", self._home, check=False)
        if done.returncode != 0:
            found = [each.read_text() for each in self._data.rglob("invalid_*.txt")]
            raise RuntimeError(f"pg_upgrade failed: {done.stdout[-2000:]} {done.stderr} {found}")

    def remove(self) -> None:
        """Stop, at once if it must be, and delete the data."""
        try:
            self.stop(timeout=10)
        except subprocess.TimeoutExpired:
            self.stop("immediate")
        shutil.rmtree(self._home, ignore_errors=True)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def _make_data(self) -> None:
        self._run("initdb", "--pgdata", self._data, "--no-instructions", *INITDB)
        # A server that has been used for years: positions beyond 31 and 32 bits that soon have another digit, and
        # transaction ids (xid8) beyond 32 bits. A new one hides what takes either for a small number. (Some
        # distributions have no pg_resetwal.)
        if self.bin("pg_resetwal").is_file():
            self._run("pg_resetwal", "--next-wal-file", "00000001000000FF000000F0", "--epoch", "3", self._data)

    def _write_settings(self, settings: dict[str, Setting]) -> None:
        defaults: dict[str, Setting] = {
            "listen_addresses": LOOPBACK,
            "port": self.port,
            "unix_socket_directories": "",
            "wal_level": "logical",
            "max_wal_senders": 20,
            "max_replication_slots": 20,
            "max_slot_wal_keep_size": "100GB",  # else every doctor warns of a full disk
            "fsync": False,
            "shared_buffers": "32MB",
            "log_line_prefix": "%m [%p] %q%d %a ",
        }
        if self.has_wal2json and self._knows("output_plugin_libraries"):
            defaults["output_plugin_libraries"] = ("pgoutput", "test_decoding", "wal2json")
        self._append_settings({**defaults, **settings})

    def _append_settings(self, settings: dict[str, Setting]) -> None:
        with (self._data / "postgresql.conf").open("a") as file:
            for name, value in settings.items():
                text = ", ".join(value) if isinstance(value, tuple) else _written(value)
                file.write("{} = '{}'\n".format(name, text.replace("'", "''")))

    def _knows(self, setting: str) -> bool:
        # A setting of later minors stops the postmaster of an earlier one from starting.
        return self._run("postgres", "-D", self._data, "-C", setting, check=False).returncode == 0

    def _run(self, program: str, *arguments: str | Path, check: bool = True) -> subprocess.CompletedProcess[str]:
        identity = self._account.identity() if self._account is not None else {}
        done = subprocess.run(
            [self.bin(program), *arguments], cwd=self._home, capture_output=True, text=True, **identity
        )
        if check and done.returncode != 0:
            raise RuntimeError(f"{program} failed: {done.stderr}")
        return done

    def _answers(self) -> bool:
        if not self.running:
            raise RuntimeError(f"PostgreSQL ended while starting:\n{self.log()}")
        return self.execute("SELECT true") == [(True,)]


def _written(value: str | int | float | bool) -> str:
    return ("on" if value else "off") if isinstance(value, bool) else str(value)
