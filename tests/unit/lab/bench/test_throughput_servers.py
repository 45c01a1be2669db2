"""Which installed PostgreSQL is taken for the sake of wal2json."""

from pathlib import Path

from walrelay.lab.bench.throughput import with_wal2json


def install(root: Path, name: str, library: str = "") -> Path:
    programs = root / name / "bin"
    programs.mkdir(parents=True)
    (programs / "postgres").touch()
    if library:
        path = root / name / library
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return programs


def test_the_newest_that_has_it(tmp_path: Path) -> None:
    install(tmp_path, "9", "lib/wal2json.so")
    install(tmp_path, "18")
    newest = install(tmp_path, "17", "lib/postgresql/wal2json.so")
    assert with_wal2json(tmp_path) == newest


def test_none_where_none_has_it(tmp_path: Path) -> None:
    install(tmp_path, "18")
    install(tmp_path, "common", "lib/wal2json.so")
    assert with_wal2json(tmp_path) is None
    assert with_wal2json(tmp_path / "nowhere") is None
