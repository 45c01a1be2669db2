"""Debezium Server as Maven Central has it: found a JDK for, unpacked once, laid out for each measurement."""

import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.bench.peers.contract import NotRun
from tests.servers.kafka_jars import java_major

VERSION = "3.6.3.Final"
JAVA_AT_LEAST = 21

_ARTIFACT = f"io.debezium:debezium-server-dist:{VERSION}:tar.gz"

# Later versions of the plugin ask for the parent's POM first, which not every mirror has; this one takes the file.
_COPY = "org.apache.maven.plugins:maven-dependency-plugin:2.10:copy"

_JVMS = Path("/usr/lib/jvm")
_SHARED = ("lib", "lib_opt", "lib_metrics", "jmx", "connectors", "run.sh")


def find_jdk() -> Path:
    """What JAVA_HOME, the PATH or Debian's directory of JDKs have, the first that is new enough."""
    for home in _jdks(os.environ):
        if java_major(home / "bin" / "java") >= JAVA_AT_LEAST:
            return home
    raise NotRun(f"needs Java {JAVA_AT_LEAST} or later, looked for in JAVA_HOME, PATH and {_JVMS}")


def java_version(jdk: Path) -> str:
    """As it calls itself, such as 21.0.7."""
    command: list[str | Path] = [jdk / "bin" / "java", "-XshowSettings:properties", "-version"]
    answer = subprocess.run(command, capture_output=True, text=True)
    settings = (line.strip().partition(" = ") for line in answer.stderr.splitlines())
    return next((value for name, _, value in settings if name == "java.version"), "of an unknown version")


def install(cache: Path) -> Path:
    """The unpacked distribution below `cache`; 0.7 GB to fetch the first time."""
    home = cache / f"debezium-server-{VERSION}"
    if not home.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache, prefix="debezium-") as name:
            _unpack(_fetch(Path(name)), Path(name))
            (Path(name) / "debezium-server").rename(home)
    return home


def lay_out(home: Path, directory: Path) -> None:
    """Makes `directory` look like the distribution, whose files it shares, with config and data of its own."""
    runners = [path.name for path in home.glob("debezium-server-*runner.jar")]
    for name in (*_SHARED, *runners):
        (directory / name).symlink_to(home.absolute() / name)
    for name in ("config/lib", "data"):
        (directory / name).mkdir(parents=True)


def _jdks(environ: Mapping[str, str]) -> Iterator[Path]:
    candidates = []
    if environ.get("JAVA_HOME"):
        candidates.append(Path(environ["JAVA_HOME"]))
    if java := shutil.which("java", path=environ.get("PATH")):
        candidates.append(Path(java).resolve().parents[1])
    candidates += sorted(_JVMS.glob("*"))
    return (home for home in candidates if (home / "bin" / "java").is_file())


def _fetch(directory: Path) -> Path:
    maven = shutil.which("mvn")
    if maven is None:
        raise NotRun("needs Maven to fetch it")
    # A repository of its own: what is unpacked need not be kept a second time in the user's.
    options = [f"-Dartifact={_ARTIFACT}", f"-DoutputDirectory={directory}", f"-Dmaven.repo.local={directory / 'm2'}"]
    done = subprocess.run([maven, "--batch-mode", "--quiet", _COPY, *options], stdin=subprocess.DEVNULL)
    archives = list(directory.glob("debezium-server-dist-*.tar.gz"))
    if done.returncode != 0 or not archives:
        raise NotRun(f"Maven could not fetch {_ARTIFACT} (exit code {done.returncode})")
    return archives[0]


def _unpack(archive: Path, directory: Path) -> None:
    with tarfile.open(archive) as tar:
        tar.extractall(directory, filter="data")
