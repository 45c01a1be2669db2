"""A file of lines that one process writes: opened, repaired, appended to, rotated. Whole lines stay as they are.

Beside it may be a journal, `PATH.position`: a position, and the lines of the last group, with the place in the file
that they were written to. The journal is replaced as a whole, and that commits the group: lines of it that a crash kept
out of the file are written when the file is opened next. So what a reader of the file has seen is never taken back.
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


class NoSpace(Exception):
    """The disk is full; the text says so. The same may be tried again."""


class InUse(Retryable):
    """Another process writes to the file."""


class JournalEntry(NamedTuple):
    """A position, and the `lines` that were to be at `offset` of the file with that inode."""

    position: RelayPosition
    inode: int
    offset: int
    lines: bytes

    def as_bytes(self) -> bytes:
        where = {"inode": self.inode, "offset": self.offset}
        return json.dumps({"position": json.loads(self.position.as_json()), **where}).encode() + b"\n" + self.lines

    @staticmethod
    def parse(text: bytes) -> "JournalEntry":
        """ValueError, TypeError or LookupError for what `as_bytes` did not write."""
        head, _, lines = text.partition(b"\n")
        members = json.loads(head)
        position = RelayPosition.of_json(json.dumps(members["position"]).encode())
        return JournalEntry(position, int(members["inode"]), int(members["offset"]), lines)


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
            if self.size and self._rotation.is_due(self.size + size, self._written_at):
                os.ftruncate(self._descriptor, self.size)  # what a full disk left over
                self.path.rename(_unused(self.path))
                self.close()
                self._open()
                self.size = 0

    def write(self, lines: bytes, offset: int) -> None:
        """Writes there and waits for the disk. After NoSpace a part may be there; the same is to be tried again."""
        with _explained(self.path):
            rest, place = memoryview(lines), offset
            while rest:
                written = os.pwrite(self._descriptor, rest, place)
                rest, place = rest[written:], place + written
            os.fdatasync(self._descriptor)
        self.size, self._written_at = place, time()

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

    def close(self) -> None:
        with suppress(OSError):
            os.close(self._descriptor)

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
        """Nothing to do where something follows the group, or the file is another one: then the group was complete."""
        entry = self.journal
        if entry is None or entry.inode != self.inode:
            return
        behind = os.fstat(self._descriptor).st_size - entry.offset
        if not 0 <= behind <= len(entry.lines):
            return
        if os.pread(self._descriptor, behind, entry.offset) == entry.lines:
            os.fdatasync(self._descriptor)
        else:
            self.write(entry.lines, entry.offset)

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


def _unused(path: Path) -> Path:
    """A name that sorts by time."""
    while True:
        name = path.with_name(f"{path.name}.{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}")
        if not name.exists():
            return name


def _sync_directory(path: Path) -> None:
    """Without this a file is safe, but its name may not be."""
    descriptor = os.open(path.parent, os.O_RDONLY)
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
