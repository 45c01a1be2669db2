"""The fake of Pub/Sub, compiled by Go into the cache of the tests' servers (run this module to do it)."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

from tests.servers.kafka_jars import cache

SOURCES = Path(__file__).with_name("pstest")


def compiled(environ: Mapping[str, str]) -> Path:
    """Where the program of these sources is kept."""
    digest = sha256(b"".join(path.read_bytes() for path in sorted(SOURCES.glob("*.*"))))
    return cache(environ) / f"pstest-{digest.hexdigest()[:12]}"


def main() -> int:
    """Compile it if it is missing. Says on stderr what is done, or why nothing is."""
    program, go = compiled(os.environ), shutil.which("go")
    if program.is_file():
        return 0
    if go is None:
        sys.stderr.write("no Pub/Sub for the tests: it needs Go\n")
        return 0
    sys.stderr.write(f"compiling pstest into {program}\n")
    program.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=program.parent) as directory:
        partial = Path(directory) / program.name
        try:
            subprocess.run([go, "build", "-o", partial, "."], cwd=SOURCES, stdin=subprocess.DEVNULL, check=True)
        except subprocess.CalledProcessError as error:
            sys.stderr.write(f"no Pub/Sub for the tests: {error}\n")
            return 0
        partial.rename(program)
    return 0


if __name__ == "__main__":
    sys.exit(main())
