"""A file of lines that one process writes: opened, repaired, appended to, rotated. Whole lines stay as they are.

Beside it may be a journal, `PATH.position`: a position, and the lines of the last group, with the place in the file
that they were written to. The journal is replaced as a whole, and that commits the group: lines of it that a crash kept
out of the file are written when the file is opened next. So what a reader of the file has seen is never taken back.

A mark behind the lines in the journal says that the disk has them in the file. Without it they are written, also where
the file looks as if it had them: what a disk failed to write is still in memory, and a second sync would not try again.
"""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from errno import EACCES, EDQUOT, EISDIR, ENAMETOOLONG, ENOENT, ENOSPC, ENOTDIR, EPERM, EROFS
from pathlib import Path
from time import time
from typing import NamedTuple

from walrelay.errors import Fatal, Retryable
from walrelay.model import RelayPosition

_NO_SPACE = {ENOSPC, EDQUOT}
_FOR_EVER = {EACCES, EISDIR, ENAMETOOLONG, ENOENT, ENOTDIR, EPERM, EROFS}
_BLOCK = 2**16  # bytes that are looked through for a line's end at a time
_WRITTEN = b"."  # the mark; a line's end or the head is before it


class NoSpace(Exception):
    """The disk is full; the text says so. The same may be tried again."""


class InUse(Retryable):
    """Another process writes to the file."""


class JournalEntry(NamedTuple):
    """A position, and the `lines` that were to be at `offset` of the file with that inode; `written`: they are."""

    position: RelayPosition
    inode: int
    offset: int
    lines: bytes
    written: bool = False

    def as_bytes(self) -> bytes:
        where = {"inode": self.inode, "offset": self.offset}
        head = json.dumps({"position": json.loads(self.position.as_json()), **where}).encode()
        return head + b"\n" + self.lines + (_WRITTEN if self.written else b"")

    @staticmethod
    def parse(text: bytes) -> "JournalEntry":
        """ValueError, TypeError or LookupError for what `as_bytes` did not write."""
        head, _, lines = text.partition(b"\n")
        members = json.loads(head)
        position = RelayPosition.of_json(json.dumps(members["position"]).encode())
        where = int(members["inode"]), int(members["offset"])
        return JournalEntry(position, *where, lines.removesuffix(_WRITTEN), written=lines.endswith(_WRITTEN))


class Rotation(NamedTuple):
    """The size that a file may have, and the span of time, in seconds, of which it has the lines; None: any."""

    largest: int | None
    span: float | None

    def is_due(self, size: int, written_at: float) -> bool:
        """`size`: what the file would have. `written_at`: when it was written to last, in seconds since 1970."""
        if self.largest is not None and size > self.largest:
            return True
        return self.span is not None and time() // self.span != written_at // self.span


NO_ROTATION = Rotation(None, None)


class LineFile:
    """Open, and locked against other processes, until `close`."""

    def __init__(self, path: Path, rotation: Rotation = NO_ROTATION) -> None:
        """InUse, NoSpace or Fatal where that does not work."""
        self.path, self.journal_path = path, path.with_name(f"{path.name}.position")
        self._rotation = rotation
        self._descriptor = -1
        self._failed = False  # whether a write broke off: a part of it may be behind the end
        self._open()
        try:
            with _explained(path):
                written_at = os.fstat(self._descriptor).st_mtime
                self.journal = self._read_journal()
                self._complete_group()
                self.size = self._cut_half_a_line()
                self._written_at = written_at
        except BaseException:
            self.close()
            raise

    @property
    def inode(self) -> int:
        return os.fstat(self._descriptor).st_ino

    def make_ready(self, size: int) -> None:
        """To be called before so many bytes are written at the file's end; everything in it is on disk. Rotates the
        file if that is due: it gets the time as a suffix, and an empty one takes its place.
        """
        with _explained(self.path):
            if not self._is_in_its_place():
                raise Retryable(f"{self.path} was moved or removed by somebody else", retry_within=0.1)
            end = os.fstat(self._descriptor).st_size
            if end < self.size or (end > self.size and not self._failed):  # at the old place there would be a hole
                raise Retryable(f"{self.path} was truncated or written to by somebody else", retry_within=0.1)
            if self.size and self._rotation.is_due(self.size + size, self._written_at):
                os.ftruncate(self._descriptor, self.size)  # what a full disk left over
                self.path.rename(_unused(self.path))
                self.close()
                self._open()
                self.size = 0

    def write(self, lines: bytes, offset: int) -> None:
        """Writes there and waits for the disk. After NoSpace a part may be there; the same is to be tried again."""
        self._failed = True
        with _explained(self.path):
            _write(self._descriptor, lines, offset)
        self.size, self._written_at, self._failed = offset + len(lines), time(), False

    def keep(self, entry: JournalEntry) -> None:
        """Replaces the journal, and waits for the disk."""
        beside = self.journal_path.with_name(f"{self.journal_path.name}.new")
        with _explained(self.journal_path):
            with beside.open("wb", buffering=0) as file:
                rest = memoryview(entry.as_bytes())
                while rest:
                    rest = rest[file.write(rest) :]
                os.fdatasync(file.fileno())
            beside.replace(self.journal_path)
            _sync_directory(self.path)

    def note_written(self) -> None:
        """Marks the group in the journal. A mark that a crash forgets costs nothing: the group is written again, to its
        place.
        """
        with suppress(OSError), self.journal_path.open("ab", buffering=0) as file:
            file.write(_WRITTEN)

    def close(self) -> None:
        """May be called twice: the number may be another file's by then."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            with suppress(OSError):
                os.close(descriptor)

    def _open(self) -> None:
        with _explained(self.path):
            self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if not self._is_in_its_place():  # whoever had it rotated it meanwhile
                    raise BlockingIOError
                _sync_directory(self.path)
            except BlockingIOError as why:
                self.close()
                raise InUse(f"another process writes to {self.path}", retry_within=1.0) from why
            except OSError:
                self.close()
                raise

    def _is_in_its_place(self) -> bool:
        try:
            return self.path.stat().st_ino == self.inode
        except FileNotFoundError:
            return False

    def _read_journal(self) -> JournalEntry | None:
        try:
            return JournalEntry.parse(self.journal_path.read_bytes())
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, LookupError) as why:
            raise Fatal(
                f"{self.journal_path} cannot be read: {why}",
                hint="Nothing was changed. Restore the file; or remove it, and with delivery: exactly_once the relay"
                " begins where the slot stands.",
            ) from why

    def _complete_group(self) -> None:
        """Where something follows the group it was complete. A file that was moved meanwhile has it, or gets it."""
        entry = self.journal
        if entry is None or entry.written or not entry.lines:
            return
        if entry.inode == self.inode:
            if 0 <= os.fstat(self._descriptor).st_size - entry.offset <= len(entry.lines):
                self.write(entry.lines, entry.offset)
            else:
                os.fdatasync(self._descriptor)
        elif (moved := self._moved(entry.inode)) is not None:
            _complete(moved, entry)
        else:  # nobody can say whether they were there
            self.journal = entry._replace(inode=self.inode, offset=self._cut_half_a_line())
            self.keep(self.journal)
            self.write(entry.lines, self.journal.offset)
        self.note_written()

    def _moved(self, inode: int) -> Path | None:
        """The file of that inode, if it is still in the directory under a name like its own. A number may be another
        file's by now.
        """
        with os.scandir(self.path.parent) as entries:
            for each in entries:
                if each.inode() == inode and each.name.startswith(self.path.stem) and each.is_file():
                    return Path(each.path)
        return None

    def _cut_half_a_line(self) -> int:
        """The size of the file without what a crash left behind its last whole line."""
        size = end = os.fstat(self._descriptor).st_size
        while end > 0:
            begin = max(0, end - _BLOCK)
            found = os.pread(self._descriptor, end - begin, begin).rfind(b"\n")
            if found >= 0:
                end = begin + found + 1
                break
            end = begin
        if end < size:
            os.ftruncate(self._descriptor, end)
            os.fdatasync(self._descriptor)
        return end


def _complete(path: Path, entry: JournalEntry) -> None:
    """Writes a group to a file that was moved, unless something follows it there."""
    descriptor = os.open(path, os.O_RDWR)
    try:
        if 0 <= os.fstat(descriptor).st_size - entry.offset <= len(entry.lines):
            _write(descriptor, entry.lines, entry.offset)
    finally:
        os.close(descriptor)


def _write(descriptor: int, lines: bytes, offset: int) -> None:
    """Waits for the disk."""
    rest, place = memoryview(lines), offset
    while rest:
        written = os.pwrite(descriptor, rest, place)
        rest, place = rest[written:], place + written
    os.fdatasync(descriptor)


def _unused(path: Path) -> Path:
    """A name that sorts by time."""
    while True:
        name = path.with_name(f"{path.name}.{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}")
        if not name.exists():
            return name


def _sync_directory(path: Path) -> None:
    """Without this a file is safe, but its name may not be: nor that of the file that a link leads to."""
    for directory in {path.parent, Path(os.path.realpath(path)).parent}:
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as why:
        text = f"{path} cannot be written: {why.strerror}"
        if why.errno in _NO_SPACE:
            raise NoSpace(text) from why
        if why.errno in _FOR_EVER:
            raise Fatal(
                text, hint="sink.path belongs into a directory that is there and that walrelay may write to."
            ) from why
        raise Retryable(text) from why
