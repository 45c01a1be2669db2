"""Servers that Go compiles into the cache of the tests' servers (run this module to do it)."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from tests.servers.kafka_jars import cache


class GoProgram(NamedTuple):
    """A package of the module in `sources`."""

    sources: Path
    package: str

    def compiled(self, environ: Mapping[str, str]) -> Path:
        """Where the program of these sources is kept."""
        digest = sha256(b"".join(path.read_bytes() for path in sorted(self.sources.glob("*.*"))))
        return cache(environ) / f"{self.sources.name}-{digest.hexdigest()[:12]}"


PSTEST = GoProgram(Path(__file__).with_name("pstest"), ".")
"""A fake of Pub/Sub."""

NEWEST_NATS = GoProgram(Path(__file__).with_name("newest_nats"), "github.com/nats-io/nats-server/v2")
"""A version of NATS that no release of Debian has yet."""


def compile_if_missing(program: GoProgram, go: str | None) -> None:
    """Says on stderr what is done, or why nothing is."""
    target = program.compiled(os.environ)
    if target.is_file():
        return
    if go is None:
        sys.stderr.write(f"no {program.sources.name} for the tests: it needs Go\n")
        return
    sys.stderr.write(f"compiling {target.name} into {target.parent}\n")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as directory:
        partial = Path(directory) / target.name
        try:
            command: list[str | Path] = [go, "build", "-o", partial, program.package]
            subprocess.run(command, cwd=program.sources, stdin=subprocess.DEVNULL, check=True)
        except subprocess.CalledProcessError as error:
            sys.stderr.write(f"no {program.sources.name} for the tests: {error}\n")
            return
        partial.rename(target)


if __name__ == "__main__":
    for each in (PSTEST, NEWEST_NATS):
        compile_if_missing(each, shutil.which("go"))
