"""Debezium Server as a peer: its settings, its JDK, the directory it starts in."""

from pathlib import Path

import pytest

from tests.bench.peers import debezium_distribution as distribution
from tests.bench.peers.contract import NotRun, Site
from tests.bench.peers.debezium_settings import properties

REPLACEMENT = "debezium.transforms.outbox.route.topic.replacement"


def site(topic: str = "outbox.event.order") -> Site:
    return Site("127.0.0.1", 5432, "postgres", "secret", "shop", "127.0.0.1:9092", topic, Path("/nowhere"), 8080)


def test_the_routers_own_topic_needs_no_replacement() -> None:
    assert REPLACEMENT not in properties(site(), "documented")


def test_another_topic_replaces_the_routers_own() -> None:
    assert properties(site("events"), "documented")[REPLACEMENT] == "events"


def test_tuned_changes_what_is_documented_only_by_name() -> None:
    documented, tuned = properties(site(), "documented"), properties(site(), "tuned")
    assert documented.items() <= tuned.items()


def test_tuned_acknowledges_by_all_and_lingers_for_at_most_five_milliseconds() -> None:
    tuned = properties(site(), "tuned")
    assert tuned["debezium.sink.kafka.producer.acks"] == "all"
    assert int(tuned["debezium.sink.kafka.producer.linger.ms"]) <= 5


def test_the_first_jdk_that_is_new_enough_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = jdk(tmp_path / "17", 17), jdk(tmp_path / "jvm" / "21", 21)
    monkeypatch.setenv("JAVA_HOME", str(old))
    monkeypatch.setenv("PATH", str(tmp_path / "none"))
    monkeypatch.setattr(distribution, "_JVMS", tmp_path / "jvm")
    assert distribution.find_jdk() == new


def test_without_such_a_jdk_it_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(jdk(tmp_path / "17", 17)))
    monkeypatch.setenv("PATH", str(tmp_path / "none"))
    monkeypatch.setattr(distribution, "_JVMS", tmp_path / "none")
    with pytest.raises(NotRun, match="Java 21"):
        distribution.find_jdk()


def test_a_measurement_shares_the_files_and_has_its_own_config_and_data(tmp_path: Path) -> None:
    home, directory = tmp_path / "home", tmp_path / "site"
    (home / "lib").mkdir(parents=True)
    directory.mkdir()
    for name in ("run.sh", "debezium-server-dist-1-runner.jar"):
        (home / name).touch()
    distribution.lay_out(home, directory)
    assert (directory / "run.sh").samefile(home / "run.sh")
    assert (directory / "debezium-server-dist-1-runner.jar").exists()
    assert not (directory / "config").is_symlink()
    assert (directory / "data").is_dir()


def jdk(home: Path, major: int) -> Path:
    """One whose java tells its version and no more."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f'#!/bin/sh\necho "    java.specification.version = {major}" >&2\n')
    java.chmod(0o755)
    return home
