"""The wheel: what a user installs holds everything that the source tree has."""

import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[zipfile.ZipFile]:
    directory = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(directory)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (file,) = directory.glob("*.whl")
    with zipfile.ZipFile(file) as archive:
        yield archive


def test_the_wheel_has_the_sql_of_the_source_tree(wheel: zipfile.ZipFile) -> None:
    packaged = {name: wheel.read(name) for name in wheel.namelist() if name.startswith("walrelay/sql/")}
    source = {f"walrelay/sql/{file.name}": file.read_bytes() for file in (ROOT / "sql").glob("*.sql")}
    assert packaged == source
    assert source


def test_the_wheel_has_the_manual_of_the_source_tree(wheel: zipfile.ZipFile) -> None:
    packaged = {name for name in wheel.namelist() if name.startswith("walrelay/docs/")}
    pages = {f"walrelay/{file.relative_to(ROOT)}" for file in (ROOT / "docs").rglob("*.md")}
    assert pages <= packaged
    assert {"walrelay/docs/settings.md", "walrelay/docs/guides/cut-over.md"} <= pages


def test_the_wheel_has_the_console_with_its_libraries_and_their_licences(wheel: zipfile.ZipFile) -> None:
    console = ROOT / "walrelay" / "admin" / "console"
    files = {str(file.relative_to(ROOT)) for file in console.rglob("*") if file.is_file()}
    assert files <= set(wheel.namelist())
    assert "walrelay/admin/console/index.html" in files


def test_what_the_image_copies_is_enough_to_build_the_wheel(tmp_path: Path) -> None:
    dockerfile = (ROOT / "deploy" / "Dockerfile").read_text()
    for names in re.findall(r"^COPY (?!--)(.+) \S+$", dockerfile, re.M):
        for name in names.split():
            (tmp_path / name).symlink_to(ROOT / name)
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path / "dist")]
    built = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr


def test_the_wheel_has_every_module_and_no_test(wheel: zipfile.ZipFile) -> None:
    modules = {str(file.relative_to(ROOT)) for file in (ROOT / "walrelay").rglob("*.py")}
    packaged = {name for name in wheel.namelist() if name.endswith(".py") and not name.startswith("walrelay/docs/")}
    assert packaged == modules
    assert "walrelay/config/example.yaml" in wheel.namelist()


def test_the_wheel_runs_from_a_directory_of_its_own(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    wheel.extractall(tmp_path)
    code = "from walrelay.ddl import script; print(script('publication', publication='p', table='t'))"
    done = subprocess.run(
        [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r}); {code}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "CREATE PUBLICATION p FOR TABLE t WITH (publish = 'insert'" in done.stdout
