"""Which source a server is taken from."""

from pathlib import Path

import pytest

from tests.servers import choose, older_postgres
from tests.servers.choose import Address, Docker, Machine, Missing
from tests.servers.kafka_jars import KafkaJars, kafka_home, kafka_version
from walrelay.lab.servers.postgres import Programs


def machine(
    tmp_path: Path,
    *,
    environ: dict[str, str] | None = None,
    docker: bool = False,
    wheel: bool = True,
    java: Path | None = None,
) -> Machine:
    return Machine(
        environ={"XDG_CACHE_HOME": str(tmp_path / "cache"), **(environ or {})},
        docker_answers=lambda: docker,
        postgresql=tmp_path / "debian",
        wheel=tmp_path / "wheel" if wheel else None,
        java=java,
    )


def install_debian(tmp_path: Path, major: int, *, wal2json: bool) -> Programs:
    root = tmp_path / "debian" / str(major)
    (root / "lib").mkdir(parents=True)
    if wal2json:
        (root / "lib" / "wal2json.so").touch()
    return _postgres(root / "bin", major)


def install_wheel(tmp_path: Path, directory: str, major: int) -> Programs:
    return _postgres(tmp_path / "wheel" / directory / "bin", major)


def install_java(tmp_path: Path, version: str) -> Path:
    return _program(tmp_path / "java", f"    java.specification.version = {version}", ">&2")


def _postgres(directory: Path, major: int) -> Programs:
    directory.mkdir(parents=True)
    _program(directory / "postgres", f"postgres (PostgreSQL) {major}.4 (Debian {major}.4-1)")
    return Programs(directory)


def _program(path: Path, says: str, to: str = "") -> Path:
    path.write_text(f'#!/bin/sh\necho "{says}" {to}\n')
    path.chmod(0o755)
    return path


def test_an_address_in_the_environment_comes_before_everything(tmp_path: Path) -> None:
    install_debian(tmp_path, 15, wal2json=True)
    here = machine(tmp_path, environ={choose.POSTGRES_ADDRESS: "dsn", choose.KAFKA_ADDRESS: "k:1"}, docker=True)
    assert choose.shared_postgres(here) == Address("dsn")
    assert choose.shared_kafka(here) == Address("k:1")


def test_docker_comes_before_programs(tmp_path: Path) -> None:
    install_debian(tmp_path, 15, wal2json=True)
    here = machine(tmp_path, docker=True)
    assert choose.shared_postgres(here) == Docker()
    assert choose.shared_kafka(here) == Docker()


def test_servers_to_be_crashed_come_from_programs_also_where_docker_answers(tmp_path: Path) -> None:
    debian = install_debian(tmp_path, 15, wal2json=True)
    assert choose.postgres_programs(machine(tmp_path, docker=True)) == debian


def test_programs_with_wal2json_come_before_the_wheel(tmp_path: Path) -> None:
    install_debian(tmp_path, 16, wal2json=False)
    debian = install_debian(tmp_path, 15, wal2json=True)
    install_wheel(tmp_path, "pginstall18", 18)
    assert choose.shared_postgres(machine(tmp_path)) == debian


def test_the_wheels_newest_comes_before_programs_without_wal2json(tmp_path: Path) -> None:
    install_debian(tmp_path, 15, wal2json=False)
    install_wheel(tmp_path, "pginstall", 16)
    wheel = install_wheel(tmp_path, "pginstall18", 18)
    assert choose.shared_postgres(machine(tmp_path)) == wheel


def test_programs_without_wal2json_are_better_than_none(tmp_path: Path) -> None:
    install_debian(tmp_path, 9, wal2json=False)
    debian = install_debian(tmp_path, 15, wal2json=False)
    assert choose.shared_postgres(machine(tmp_path, wheel=False)) == debian


def test_one_version_can_be_asked_for(tmp_path: Path) -> None:
    install_debian(tmp_path, 15, wal2json=True)
    wheel = install_wheel(tmp_path, "pginstall", 16)
    assert choose.postgres_programs(machine(tmp_path), 16) == wheel
    with pytest.raises(Missing, match="PostgreSQL 17 is neither"):
        choose.postgres_programs(machine(tmp_path), 17)


def test_the_newest_version_may_be_the_machines_or_the_wheels(tmp_path: Path) -> None:
    wheel = install_wheel(tmp_path, "pginstall18", 18)
    install_debian(tmp_path, 15, wal2json=True)
    assert choose.newest_postgres_programs(machine(tmp_path)) == wheel
    debian = install_debian(tmp_path, 19, wal2json=False)
    assert choose.newest_postgres_programs(machine(tmp_path)) == debian


def test_no_postgres_anywhere_is_said_with_where_it_was_looked_for(tmp_path: Path) -> None:
    for look in (choose.shared_postgres, choose.postgres_programs, choose.newest_postgres_programs):
        with pytest.raises(Missing, match="debian nor in the wheel"):
            look(machine(tmp_path, wheel=False))


def test_kafka_needs_a_java_of_today(tmp_path: Path) -> None:
    for java in (None, install_java(tmp_path, "1.8"), install_java(tmp_path, "11")):
        with pytest.raises(Missing, match="Java 17"):
            choose.shared_kafka(machine(tmp_path, java=java))


def test_kafka_needs_all_of_its_jars(tmp_path: Path) -> None:
    java = install_java(tmp_path, "17")
    here = machine(tmp_path, java=java)
    jars = KafkaJars(java, tmp_path / "cache" / "walrelay" / f"kafka-{kafka_version()}")
    (jars.home / "lib").mkdir(parents=True)
    with pytest.raises(Missing, match="jars"):
        choose.shared_kafka(here)
    jars.formatted.mkdir()
    (jars.formatted / "bootstrap.checkpoint").touch()
    assert choose.shared_kafka(here) == jars


def test_the_jars_are_kept_in_the_users_cache() -> None:
    name = f"kafka-{kafka_version()}"
    assert kafka_home({"HOME": "/home/me"}) == Path("/home/me/.cache/walrelay") / name
    assert kafka_home({"HOME": "/home/me", "XDG_CACHE_HOME": "/cache"}) == Path("/cache/walrelay") / name


def test_a_missing_server_skips_the_test_and_fails_it_under_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="no server: it is away"):
        choose.give_up(Missing("it is away"))
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="no server: it is away"):
        choose.give_up(Missing("it is away"))


def test_this_machine_is_looked_at_without_failing() -> None:
    here = choose.this_machine()
    assert here.docker_answers() in (True, False)


def test_a_version_that_was_fetched_is_taken_where_nothing_else_has_it(tmp_path: Path) -> None:
    debian = install_debian(tmp_path, 15, wal2json=True)
    here = machine(tmp_path)
    with pytest.raises(Missing, match="nor fetched by tests/servers/install"):
        choose.postgres_programs(here, 17)
    fetched = _postgres(older_postgres.home(here.environ, 17) / "bin", 17)
    assert choose.postgres_programs(here, 17) == fetched
    assert choose.postgres_programs(here) == debian
