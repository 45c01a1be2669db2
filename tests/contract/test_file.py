"""What is in the file after whatever happens to its writer, its disk and the file itself."""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing
from errno import EIO, ENOSPC
from pathlib import Path

import pytest

from tests.brokers.file import FileCase, received
from walrelay.errors import Fatal, Retryable
from walrelay.model import Receipt
from walrelay.sinks.file.line_file import LineFile
from walrelay.sinks.stdout import line
from walrelay.testing import message, numbers, publish, settle


@pytest.fixture
def case(tmp_path: Path) -> FileCase:
    return FileCase(tmp_path)


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A file system of one megabyte."""
    disk = Path(tempfile.mkdtemp(prefix="walrelay-disk-"))
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk], capture_output=True)
    try:
        if mounted.returncode != 0:
            pytest.skip(f"only root may mount a small file system: {mounted.stderr.decode().strip()}")
        yield disk
    finally:
        subprocess.run(["umount", "-l", disk], capture_output=True)
        disk.rmdir()


def lock_of(case: FileCase) -> Path:
    return case.path.with_name(f"{case.path.name}.lock")


def moved(case: FileCase) -> Path:
    old = case.path.with_suffix(".old")
    case.path.rename(old)
    return old


def test_half_a_line_that_a_crash_left_is_cut_off(case: FileCase) -> None:
    whole = line(message(case, 0))
    case.path.write_bytes(whole + line(message(case, 1))[:-1])
    with closing(case.open()) as sink:
        settle(sink, 1, publish(sink, case, range(1, 2)))
    assert numbers(case.arrived()) == [0, 1]


def test_half_a_line_longer_than_a_block_is_cut_off(case: FileCase) -> None:
    case.path.write_bytes(line(message(case, 0)) + b"x" * 200_000)
    with closing(case.open()) as sink:
        settle(sink, 1, publish(sink, case, range(1, 2)))
    assert numbers(case.arrived()) == [0, 1]


@pytest.mark.parametrize("moves", [False, True], ids=["", "though the file is moved"])
def test_a_second_writer_waits_until_the_first_lets_go(case: FileCase, moves: bool) -> None:
    """A leader that is frozen keeps the lock, and what it writes when it wakes up comes before its successor's."""
    with closing(case.open()) as second:
        with closing(case.open()) as first:
            settle(first, 1, publish(first, case, range(1)))
            if moves:
                moved(case)
            taken = publish(second, case, range(2, 3))
            second.flush(0)
            assert "another sink writes there" in second.trouble()
            assert [*second.receipts(0.3)] == []
            settle(first, 1, publish(first, case, range(1, 2)))
        settle(second, 1, taken)
        assert second.trouble() == ""
    assert numbers(case.arrived()) == ([1, 2] if moves else [0, 1, 2])


def test_a_link_to_the_file_leads_no_second_writer_to_it(case: FileCase, tmp_path: Path) -> None:
    elsewhere = FileCase(tmp_path)
    case.path.symlink_to(elsewhere.path)
    with closing(case.open()) as sink, closing(elsewhere.open()) as other:
        settle(sink, 1, publish(sink, case, range(1)))
        publish(other, case, range(1, 2))
        other.flush(0)
        assert "another sink writes there" in other.trouble()
    assert numbers(elsewhere.arrived()) == [0]


def test_a_lock_that_somebody_removed_ends_the_run_before_a_line_is_written(case: FileCase) -> None:
    with closing(case.open()) as sink:
        settle(sink, 1, publish(sink, case, range(1)))
        lock_of(case).unlink()
        publish(sink, case, range(1, 2))
        with pytest.raises(Retryable, match="was removed"):
            sink.flush(1)
    with closing(case.open()) as successor:
        settle(successor, 1, publish(successor, case, range(1, 2)))
    assert numbers(case.arrived()) == [0, 1]


def test_a_full_disk_is_waited_for_and_nothing_is_lost_or_repeated(small_disk: Path) -> None:
    case = FileCase(small_disk)
    ballast = small_disk / "ballast"
    with closing(case.open()) as sink:
        count = settled = 0
        ballast.write_bytes(bytes(900_000))
        while not sink.trouble():
            assert sink.publish(message(case, count, size=10_000), ticket=0)
            count += 1
            sink.flush(0)
            settled += sum(each.messages for each in sink.receipts(0) if isinstance(each, Receipt))
        assert sink.trouble().endswith("cannot be written: No space left on device")
        assert settled < count
        for _ in range(3):
            assert [*sink.receipts(0.3)] == []
        ballast.unlink()
        settle(sink, count - settled)
        assert sink.trouble() == ""
    assert numbers(case.arrived()) == list(range(count))


def test_a_directory_that_is_not_there_is_fatal_and_named(tmp_path: Path) -> None:
    case = FileCase(tmp_path / "nowhere")
    with closing(case.open()) as sink:
        assert sink.publish(message(case, 0), 0)
        with pytest.raises(Fatal, match=r"nowhere/.* cannot be written: No such file") as why:
            sink.flush(1)
    assert "sink.path" in why.value.hint


@pytest.mark.parametrize("how", ["moved", "removed"])
def test_a_file_that_is_moved_or_removed_is_followed_by_a_new_one(case: FileCase, how: str) -> None:
    with closing(case.open()) as sink:
        settle(sink, 2, publish(sink, case, range(2)))
        old = moved(case)
        if how == "removed":
            old.unlink()
        settle(sink, 2, publish(sink, case, range(2, 4)))
    assert numbers(case.arrived()) == [2, 3]
    if how == "moved":
        assert [got.value for got in received(old)] == [b"0", b"1"]


def test_a_line_that_the_disk_failed_to_take_is_written_again(case: FileCase, monkeypatch: pytest.MonkeyPatch) -> None:
    """After an error of fdatasync the next one says that all is well, and nothing is on the disk."""
    with closing(case.open()) as sink:
        settle(sink, 3, publish(sink, case, range(3)))
        with monkeypatch.context() as broken:
            broken.setattr(os, "fdatasync", failing(EIO))
            publish(sink, case, range(3, 4))
            with pytest.raises(Retryable, match="Input/output error"):
                settle(sink, 1)
        assert numbers(case.arrived()) == [0, 1, 2]
    with closing(case.open()) as successor:
        settle(successor, 1, publish(successor, case, range(3, 4)))
    assert numbers(case.arrived()) == [0, 1, 2, 3]


def test_what_a_full_disk_took_is_cut_off_before_it_is_tried_again(
    case: FileCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(case.open()) as sink:
        settle(sink, 1, publish(sink, case, range(1)))
        with monkeypatch.context() as broken:
            broken.setattr(os, "fdatasync", failing(ENOSPC))
            taken = publish(sink, case, range(1, 4))
            sink.flush(0)
            assert "No space left" in sink.trouble()
            assert numbers(case.arrived()) == [0]
        settle(sink, 3, taken)
    assert numbers(case.arrived()) == [0, 1, 2, 3]


def failing(code: int) -> object:
    def fail(descriptor: int) -> None:
        raise OSError(code, os.strerror(code))

    return fail


@pytest.mark.parametrize("left", [b"", b'{"a": 1}\n' * 20, b'{"a": 1}\n{"half'], ids=["", "lines", "half a line"])
def test_a_file_that_somebody_truncated_or_wrote_to_gets_no_hole_and_no_half_line(case: FileCase, left: bytes) -> None:
    """`copytruncate` of logrotate, and `echo >>`."""
    with closing(case.open()) as sink:
        settle(sink, 3, publish(sink, case, range(3)))
        before = left and case.path.read_bytes() + left
        case.path.write_bytes(before)
        settle(sink, 1, publish(sink, case, range(3, 4)))
    assert case.path.read_bytes() == before[: before.rfind(b"\n") + 1] + line(message(case, 3))


def test_closing_twice_closes_no_file_of_somebody_else(case: FileCase) -> None:
    file = LineFile(case.path)
    file.close()
    with (case.path.parent / "other").open("wb") as other, (case.path.parent / "another").open("wb"):
        file.close()
        other.write(b"1")
        other.flush()


def test_a_link_that_is_changed_leads_to_the_next_file(case: FileCase, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    case.path.symlink_to(elsewhere / "events")
    with closing(case.open()) as sink:
        settle(sink, 3, publish(sink, case, range(3)))
        case.path.unlink()
        case.path.symlink_to(elsewhere / "next")
        settle(sink, 1, publish(sink, case, range(3, 4)))
    assert [got.value for got in received(elsewhere / "events")] == [b"0", b"1", b"2"]
    assert numbers(case.arrived()) == [3]
