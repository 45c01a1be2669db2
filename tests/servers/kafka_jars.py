"""Apache Kafka's jars, fetched by Maven into a cache outside the work tree (run this module to do it)."""

import os
import shutil
import subprocess
import sys
import tempfile
import uuid
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

POM = Path(__file__).with_name("kafka-pom.xml")
JAVA_AT_LEAST = 17


@dataclass(frozen=True)
class KafkaJars:
    """A Java program and a directory `home` with the broker's class path and a formatted, empty log directory."""

    java: Path
    home: Path

    @property
    def class_path(self) -> str:
        return f"{self.home / 'lib'}/*"

    @property
    def formatted(self) -> Path:
        return self.home / "formatted"

    @property
    def classes(self) -> Path:
        """What a JVM would otherwise work out again at each start of a broker. Only saves time: it may be missing."""
        return self.home / "classes.jsa"

    @property
    def complete(self) -> bool:
        # The last file that fetch() makes before it gives the directory its name.
        return (self.formatted / "bootstrap.checkpoint").is_file()


def kafka_version() -> str:
    """The version that the pom asks for."""
    version = ElementTree.parse(POM).findtext(".//{*}properties/{*}kafka.version")
    if version is None:
        raise ValueError(f"no kafka.version in {POM}")
    return version


def kafka_home(environ: Mapping[str, str]) -> Path:
    """Where the jars of that version are kept."""
    return cache(environ) / f"kafka-{kafka_version()}"


def cache(environ: Mapping[str, str]) -> Path:
    """The user's directory of what the tests' servers have fetched."""
    directory = environ.get("XDG_CACHE_HOME") or Path(environ.get("HOME", "~")).expanduser() / ".cache"
    return Path(directory) / "walrelay"


def java_major(java: Path) -> int:
    """17 for "17.0.15"; 8 for "1.8.0"."""
    answer = subprocess.run([java, "-XshowSettings:properties", "-version"], capture_output=True, text=True)
    for line in answer.stderr.splitlines():
        name, _, value = line.strip().partition(" = ")
        if name == "java.specification.version":
            return int(value.removeprefix("1."))
    return 0


def fetch(jars: KafkaJars) -> None:
    """Fill the cache: all or nothing, also when two do it at once or one is interrupted."""
    jars.home.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=jars.home.parent) as directory:
        partial = KafkaJars(jars.java, Path(directory) / jars.home.name)
        maven: list[str | Path] = ["mvn", "--batch-mode", "--quiet", "-Dstyle.color=never", "--file", POM]
        options = ["-DincludeScope=runtime", f"-DoutputDirectory={partial.home / 'lib'}"]
        subprocess.run([*maven, "dependency:copy-dependencies", *options], stdin=subprocess.DEVNULL, check=True)
        _format(partial)
        if not jars.complete:
            shutil.rmtree(jars.home, ignore_errors=True)
            partial.home.rename(jars.home)


def archive_classes(jars: KafkaJars) -> None:
    """Keep the classes of a broker that is started for it: the others then start with half of the work."""
    from tests.servers.kafka import KafkaServer  # which is started from what this module finds

    with tempfile.TemporaryDirectory(dir=jars.home) as directory:
        partial = Path(directory) / jars.classes.name
        with KafkaServer(jars, java_options=[f"-XX:ArchiveClassesAtExit={partial}"]) as broker:
            broker.create_topic(partitions=1)
            broker.stop(timeout=60)
        partial.replace(jars.classes)


def _format(jars: KafkaJars) -> None:
    # A formatted log directory is the same for every test broker; copying one saves a second a broker.
    settings = jars.home / "format.properties"
    settings.write_text(
        "process.roles=broker,controller\n"
        "node.id=1\n"
        "controller.quorum.voters=1@127.0.0.1:9093\n"
        "controller.listener.names=CONTROLLER\n"
        "listeners=CONTROLLER://127.0.0.1:9093,PLAINTEXT://127.0.0.1:9092\n"
        f"log.dirs={jars.formatted}\n"
    )
    command: list[str | Path] = [jars.java, "-cp", jars.class_path, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
    cluster_id = uuid.uuid4().hex[:22]
    subprocess.run(
        [*command, "kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", settings],
        stdout=subprocess.DEVNULL,
        check=True,
    )


def main() -> int:
    """Fetch what is missing. Says on stderr what is done, or why nothing is."""
    java, maven = shutil.which("java"), shutil.which("mvn")
    if java is None or java_major(Path(java)) < JAVA_AT_LEAST or maven is None:
        sys.stderr.write(f"no Kafka for the tests: it needs Java {JAVA_AT_LEAST} or later, and Maven\n")
        return 0
    jars = KafkaJars(Path(java), kafka_home(os.environ))
    if not jars.complete:
        sys.stderr.write(f"fetching Apache Kafka {kafka_version()} into {jars.home}\n")
        try:
            fetch(jars)
        except subprocess.CalledProcessError as error:
            sys.stderr.write(f"no Kafka for the tests: {error}\n")
            return 0
    if not jars.classes.is_file():
        archive_classes(jars)
    return 0


if __name__ == "__main__":
    sys.exit(main())
