"""PostgreSQL of versions that no package repository of this machine has, fetched by Maven into a cache outside the work
tree (run this module to do it). They hold initdb and postgres, and no clients.
"""

import os
import platform
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

from tests.servers.kafka_jars import cache
from tests.servers.maven import copied
from walrelay.lab.servers.postgres import Programs

VERSIONS = {14: "14.19.0", 17: "17.6.0"}

_MACHINES = {"x86_64": "amd64", "aarch64": "arm64v8"}


def fetched_programs(environ: Mapping[str, str]) -> list[Programs]:
    """Those that are in the cache, the newest first."""
    found = [Programs(home(environ, major) / "bin") for major in sorted(VERSIONS, reverse=True)]
    return [programs for programs in found if (programs.bin / "postgres").is_file()]


def home(environ: Mapping[str, str], major: int) -> Path:
    """Where that version is kept."""
    return cache(environ) / f"postgresql-{VERSIONS[major]}"


def fetch(artifact: str, destination: Path) -> None:
    """All or nothing, also when two do it at once or one is interrupted."""
    destination.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=destination.parent) as directory:
        jars, partial = Path(directory) / "jars", Path(directory) / "programs"
        with zipfile.ZipFile(copied(artifact, jars)) as archive:
            (name,) = [name for name in archive.namelist() if name.endswith(".txz")]
            archive.extract(name, jars)
        shutil.unpack_archive(jars / name, partial, "xztar")
        if not destination.exists():
            partial.rename(destination)


def main() -> int:
    """Fetch what is missing. Says on stderr what is done, or why nothing is."""
    machine = _MACHINES.get(platform.machine())
    if shutil.which("mvn") is None or sys.platform != "linux" or machine is None:
        sys.stderr.write("no older PostgreSQL for the tests: it needs Maven, and Linux on x86_64 or aarch64\n")
        return 0
    for major, version in VERSIONS.items():
        destination = home(os.environ, major)
        if destination.exists():
            continue
        sys.stderr.write(f"fetching PostgreSQL {version} into {destination}\n")
        try:
            fetch(f"io.zonky.test.postgres:embedded-postgres-binaries-linux-{machine}:{version}", destination)
        except (subprocess.CalledProcessError, OSError, shutil.ReadError) as error:
            sys.stderr.write(f"no PostgreSQL {version} for the tests: {error}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
