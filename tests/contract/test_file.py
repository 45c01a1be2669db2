"""What is in the file after whatever happens to its writer, its disk and the file itself."""

import os
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from errno import EIO
from pathlib import Path

import pytest

from tests.brokers.file import FileCase, received
from walrelay.errors import Fatal, Retryable
from walrelay.lsn import LSN
from walrelay.model import Receipt, RelayPosition, System
from walrelay.publish import ExactlyOnceSink, Sink
from walrelay.sinks.file.groups import FilePositionRecord
from walrelay.sinks.file.line_file import InUse, JournalEntry, LineFile
from walrelay.sinks.stdout import line
from walrelay.testing import message, numbers, publish, settle

SYSTEM = System("7301", 1)


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


def fenced(case: FileCase, slot: str = "slot", system: System = SYSTEM) -> ExactlyOnceSink:
    sink = case.open_exactly_once(system, slot)
    assert sink.fence()
    return sink


def commit(sink: ExactlyOnceSink, case: FileCase, numbered: range, end: int) -> None:
    """One transaction of these messages, durable."""
    for number in numbered:
        assert sink.publish(message(case, number), ticket=end)
    sink.mark(LSN(end))
    sink.flush(1)
    assert [*sink.receipts(1)] == [Receipt(end, len(numbered))]


def position(lsn: int) -> RelayPosition:
    return RelayPosition(SYSTEM, "slot", LSN(lsn))


def publish_marked(sink: Sink, case: FileCase, numbered: range, end: int) -> Counter[int]:
    """One transaction of these messages, taken."""
    found = publish(sink, case, numbered)
    sink.mark(LSN(end))
    return found


def journal_of(case: FileCase) -> Path:
    return case.path.with_name(f"{case.path.name}.position")


def unmark(case: FileCase) -> None:
    """As if the writer had died before the disk had the group in the file."""
    text = journal_of(case).read_bytes()
    assert text.endswith(b"}\n.")
    journal_of(case).write_bytes(text[:-1])


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


def test_a_second_writer_waits_until_the_first_lets_go(case: FileCase) -> None:
    with closing(case.open()) as sink:
        settle(sink, 1, publish(sink, case, range(1)))
        with closing(case.open()) as second:
            assert second.publish(message(case, 1), 0)
            with pytest.raises(Retryable, match="another process writes to"):
                second.flush(1)
        waiting = case.open_exactly_once(SYSTEM, "slot")
        assert not waiting.fence()
        assert "another process writes to" in waiting.trouble()
    assert waiting.fence()
    waiting.close()


@pytest.mark.parametrize("exactly_once", [False, True])
def test_a_full_disk_is_waited_for_and_nothing_is_lost_or_repeated(small_disk: Path, *, exactly_once: bool) -> None:
    case = FileCase(small_disk)
    ballast = small_disk / "ballast"
    sink = fenced(case) if exactly_once else case.open()
    with closing(sink):
        count = settled = 0
        ballast.write_bytes(bytes(900_000))
        while not sink.trouble():
            assert sink.publish(message(case, count, size=10_000), ticket=0)
            count += 1
            sink.mark(LSN(count))
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
    with pytest.raises(Fatal, match="No such file"):
        case.open_exactly_once(SYSTEM, "slot").fence()


def test_a_file_that_is_too_large_becomes_another_and_both_have_whole_lines(tmp_path: Path) -> None:
    case = FileCase(tmp_path, rotate_bytes=2000)
    for number in range(50):
        with closing(case.open()) as sink:
            settle(sink, 1, publish(sink, case, range(number, number + 1)))
    files = [*sorted(tmp_path.glob(f"{case.path.name}.*")), case.path]
    assert len(files) > 3
    assert all(file.stat().st_size <= 2000 for file in files)
    assert [int(got.value or b"") for file in files for got in received(file)] == list(range(50))


@pytest.mark.parametrize("exactly_once", [False, True])
def test_a_span_of_time_has_a_file_of_its_own_also_after_a_restart(tmp_path: Path, *, exactly_once: bool) -> None:
    case = FileCase(tmp_path, rotate_interval=3600)

    def written(number: int) -> None:
        with closing(fenced(case) if exactly_once else case.open()) as sink:
            assert sink.publish(message(case, number), ticket=0)
            sink.mark(LSN(100 + number))
            settle(sink, 1)

    written(0)
    os.utime(case.path, (0, 0))
    written(1)
    (rotated,) = tmp_path.glob(f"{case.path.name}.*Z")
    assert [[got.value for got in received(file)] for file in (rotated, case.path)] == [[b"0"], [b"1"]]


def test_a_file_that_somebody_moved_ends_the_run_and_the_next_begins_a_new_one(case: FileCase) -> None:
    with closing(case.open()) as sink:
        settle(sink, 1, publish(sink, case, range(1)))
        case.path.rename(case.path.with_suffix(".old"))
        assert sink.publish(message(case, 1), 0)
        with pytest.raises(Retryable, match="was moved or removed by somebody else"):
            sink.flush(1)
    with closing(case.open()) as successor:
        settle(successor, 1, publish(successor, case, range(1, 2)))
    assert numbers(case.arrived()) == [1]


def test_a_group_is_there_with_its_position_or_not_at_all(case: FileCase) -> None:
    with closing(fenced(case)) as sink:
        assert sink.last() is None
        commit(sink, case, range(3), end=100)
        assert sink.publish(message(case, 3), ticket=1)
        sink.flush(1)
        assert numbers(case.arrived()) == [0, 1, 2], "its transaction is not over"
    with closing(fenced(case)) as successor:
        assert successor.last() == position(100)


@pytest.mark.parametrize("written", [0, 1, 100, 250, -1, None])
def test_a_group_that_a_crash_kept_out_of_the_file_is_completed(case: FileCase, written: int | None) -> None:
    """Whatever part of it the file has; a reader that saw a part sees the rest behind it."""
    with closing(fenced(case)) as sink:
        commit(sink, case, range(3), end=100)
        commit(sink, case, range(3, 6), end=200)
    whole = case.path.read_bytes()
    group = b"".join(line(message(case, number)) for number in range(3, 6))
    case.path.write_bytes(whole.removesuffix(group) + group[:written])
    unmark(case)
    with closing(fenced(case)) as successor:
        assert successor.last() == position(200)
        assert case.path.read_bytes() == whole
        commit(successor, case, range(6, 7), end=300)
    assert numbers(case.arrived()) == list(range(7))


def test_a_sink_at_least_once_completes_the_group_too_before_it_writes(case: FileCase) -> None:
    """A replay, for example."""
    with closing(fenced(case)) as sink:
        commit(sink, case, range(3), end=100)
    case.path.write_bytes(case.path.read_bytes()[:30])
    unmark(case)
    with closing(case.open()) as replay:
        settle(replay, 1, publish(replay, case, range(3, 4)))
    with closing(fenced(case)) as successor:
        assert successor.last() == position(100)
    assert numbers(case.arrived()) == [0, 1, 2, 3]


def test_a_group_in_a_file_that_was_rotated_is_not_written_again(tmp_path: Path) -> None:
    case = FileCase(tmp_path, rotate_bytes=1024)
    with closing(fenced(case)) as sink:
        commit(sink, case, range(5), end=100)
    case.path.rename(tmp_path / "rotated")
    with closing(fenced(case)) as successor:
        assert successor.last() == position(100)
    assert case.arrived() == []


@pytest.mark.parametrize("written", [0, 30, None])
def test_a_group_that_a_crash_kept_out_of_a_file_that_was_moved_then_is_completed_there(
    case: FileCase, tmp_path: Path, written: int | None
) -> None:
    """logrotate, between the crash and the next start."""
    with closing(fenced(case)) as sink:
        commit(sink, case, range(3), end=100)
    whole, moved = case.path.read_bytes(), tmp_path / f"{case.path.name}.1"
    with case.path.open("r+b") as file:
        file.truncate(len(whole) if written is None else written)
    case.path.rename(moved)
    unmark(case)
    with closing(fenced(case)) as successor:
        assert successor.last() == position(100)
        commit(successor, case, range(3, 4), end=200)
    assert moved.read_bytes() == whole
    assert numbers(case.arrived()) == [3]


@pytest.mark.parametrize("times", [1, 2])
def test_a_group_that_may_have_been_in_a_file_that_is_gone_is_written_once_to_the_next(
    case: FileCase, times: int
) -> None:
    with closing(fenced(case)) as sink:
        commit(sink, case, range(3), end=100)
    case.path.unlink()
    other = case.path.parent / "may get its inode"
    other.touch()
    unmark(case)
    for _ in range(times):
        fenced(case).close()
    with closing(fenced(case)) as successor:
        assert successor.last() == position(100)
    assert numbers(case.arrived()) == [0, 1, 2]
    assert other.read_bytes() == b""


def test_a_group_of_which_the_disk_had_all_is_not_written_to_a_file_that_was_emptied(case: FileCase) -> None:
    with closing(fenced(case)) as sink:
        commit(sink, case, range(3), end=100)
    case.path.write_bytes(b"")
    with closing(fenced(case)) as successor:
        commit(successor, case, range(3, 4), end=200)
    assert numbers(case.arrived()) == [3]


def test_a_group_that_the_disk_failed_to_take_is_written_again_though_memory_has_it(
    case: FileCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After an error of fdatasync the next one says that all is well, and nothing is on the disk."""
    synced, written = os.fdatasync, list[int]()

    def failing(descriptor: int) -> None:
        if os.fstat(descriptor).st_ino == case.path.stat().st_ino:
            raise OSError(EIO, "Input/output error")
        synced(descriptor)

    def counted(descriptor: int, lines: bytes, offset: int) -> int:
        written.append(offset)
        return os.pwritev(descriptor, [lines], offset)

    with closing(fenced(case)) as sink:
        commit(sink, case, range(3), end=100)
        size = case.path.stat().st_size
        with monkeypatch.context() as broken:
            broken.setattr(os, "fdatasync", failing)
            assert sink.publish(message(case, 3), ticket=1)
            sink.mark(LSN(200))
            with pytest.raises(Retryable, match="Input/output error"):
                settle(sink, 1)
    monkeypatch.setattr(os, "pwrite", counted)
    with closing(fenced(case)) as successor:
        assert successor.last() == position(200)
    assert written == [size]
    assert numbers(case.arrived()) == [0, 1, 2, 3]


@pytest.mark.parametrize("exactly_once", [False, True])
@pytest.mark.parametrize("left", [b"", b'{"a": 1}\n' * 20])
def test_a_file_that_somebody_truncated_or_wrote_to_gets_no_hole_and_no_half_line(
    case: FileCase, left: bytes, *, exactly_once: bool
) -> None:
    """`copytruncate` of logrotate, and `echo >>`."""

    def begun() -> Sink:
        return fenced(case) if exactly_once else case.open()

    with closing(begun()) as sink:
        settle(sink, 3, publish_marked(sink, case, range(3), end=100))
        case.path.write_bytes(left and case.path.read_bytes() + left)
        assert sink.publish(message(case, 3), 0)
        sink.mark(LSN(200))
        with pytest.raises(Retryable, match="was truncated or written to by somebody else"):
            settle(sink, 1)
    before = case.path.read_bytes()
    with closing(begun()) as successor:
        settle(successor, 1, publish_marked(successor, case, range(3, 4), end=200))
    assert case.path.read_bytes() == before + line(message(case, 3))


def test_closing_twice_closes_no_file_of_somebody_else(case: FileCase) -> None:
    file = LineFile(case.path)
    file.close()
    with (case.path.parent / "other").open("wb") as other:
        file.close()
        other.write(b"1")
        other.flush()


def test_a_link_may_lead_to_the_file(case: FileCase, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    case.path.symlink_to(elsewhere / "events")
    with closing(fenced(case)) as sink:
        commit(sink, case, range(3), end=100)
        with pytest.raises(InUse):
            LineFile(elsewhere / "events")
    case.path.unlink()
    case.path.symlink_to(elsewhere / "next")
    with closing(fenced(case)) as successor:
        assert successor.last() == position(100)
        commit(successor, case, range(3, 4), end=200)
    assert [got.value for got in received(elsewhere / "events")] == [b"0", b"1", b"2"]
    assert numbers(case.arrived()) == [3]


def test_a_position_without_messages_is_kept(case: FileCase) -> None:
    with closing(fenced(case)) as sink:
        commit(sink, case, range(3), end=100)
        sink.mark(LSN(150))
        assert sink.keep(position(200)._replace(xmin=7)) == LSN(200)
    with closing(fenced(case)) as successor:
        assert successor.last() == position(200)._replace(xmin=7)
    assert numbers(case.arrived()) == [0, 1, 2]


def test_a_position_behind_messages_that_wait_is_not_kept(case: FileCase) -> None:
    with closing(fenced(case)) as sink:
        commit(sink, case, range(3), end=100)
        assert sink.publish(message(case, 3), ticket=1)
        assert sink.keep(position(200)) == LSN(100)


def test_a_command_that_moves_the_slot_keeps_the_position(case: FileCase) -> None:
    record = FilePositionRecord(lambda: LineFile(case.path), "slot")
    assert record.last() is None
    assert record.keep(position(300)) == LSN(300)
    with closing(fenced(case)) as sink:
        assert sink.last() == position(300)
        with pytest.raises(Retryable, match="another process writes to"):
            record.last()


def test_a_position_of_another_slot_or_one_that_cannot_be_read_is_fatal(case: FileCase) -> None:
    with closing(fenced(case)) as sink:
        commit(sink, case, range(3), end=100)
    with pytest.raises(Fatal, match="is of slot 'slot', not of 'other'"):
        case.open_exactly_once(SYSTEM, "other").fence()
    journal_of(case).write_bytes(b"{}\n")
    with pytest.raises(Fatal, match=r"\.position cannot be read") as why:
        case.open_exactly_once(SYSTEM, "slot").fence()
    assert "remove it" in why.value.hint


def test_a_journal_entry_is_read_as_it_was_written() -> None:
    entry = JournalEntry(position(7), 5, 9, b'{"a": "\\n"}\n{}\n')
    for each in (entry, entry._replace(written=True), entry._replace(lines=b"", written=True)):
        assert JournalEntry.parse(each.as_bytes()) == each


def test_a_large_transaction_is_cut_and_its_position_says_where(case: FileCase) -> None:
    with closing(fenced(case)) as sink:
        for number in range(10_000):
            assert sink.publish(message(case, number), ticket=1)
        sink.mark(LSN(100), LSN(500), 10_000)
        assert settle(sink, 10_000) == {1: 10_000}
    with closing(fenced(case)) as successor:
        found = successor.last()
        assert found is not None
        assert (found.lsn, found.commit_lsn, found.ordinal) == (LSN(100), LSN(500), 10_000)


def test_a_record_of_more_messages_than_a_group_has_room_for_is_taken(case: FileCase) -> None:
    """Inside a record there is no mark, so no group can end: the sink takes the rest."""
    with closing(fenced(case)) as sink:
        for number in range(25_000):
            if not sink.publish(message(case, number), ticket=1):
                assert [*sink.receipts(0)] == []
                assert sink.publish(message(case, number), ticket=1)
        sink.mark(LSN(100))
        settle(sink, 25_000)
