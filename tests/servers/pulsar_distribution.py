"""Apache Pulsar's server, fetched by Maven into a cache outside the work tree (run this module to do it)."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tests.servers.kafka_jars import JAVA_AT_LEAST, cache, java_major
from tests.servers.maven import copied

VERSION = "4.0.8"


def pulsar_home(environ: Mapping[str, str]) -> Path:
    """Where that version is kept."""
    return cache(environ) / f"pulsar-{VERSION}"


def fetch(home: Path) -> None:
    """All or nothing, also when two do it at once or one is interrupted."""
    home.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home.parent) as directory:
        archive = copied(
            f"org.apache.pulsar:pulsar-server-distribution:{VERSION}:tar.gz:bin", Path(directory) / "archive"
        )
        shutil.unpack_archive(archive, Path(directory) / "unpacked")
        if not home.exists():
            (Path(directory) / "unpacked" / f"apache-pulsar-{VERSION}").rename(home)


def main() -> int:
    """Fetch what is missing. Says on stderr what is done, or why nothing is."""
    java, home = shutil.which("java"), pulsar_home(os.environ)
    if java is None or java_major(Path(java)) < JAVA_AT_LEAST or shutil.which("mvn") is None:
        sys.stderr.write(f"no Pulsar for the tests: it needs Java {JAVA_AT_LEAST} or later, and Maven\n")
    elif not home.exists():
        sys.stderr.write(f"fetching Apache Pulsar {VERSION}, 245 MB, into {home}\n")
        try:
            fetch(home)
        except (subprocess.CalledProcessError, OSError, shutil.ReadError) as error:
            sys.stderr.write(f"no Pulsar for the tests: {error}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
