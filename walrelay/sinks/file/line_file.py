"""A file of lines to which one process appends. Whole lines stay as they are.

The lock is on a file beside it, `PATH.lock`, which stays where it is when something moves the file of lines. The
process that has it locked is the only writer of what is at the path. The lock file is empty and never removed.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from errno import EACCES, EDQUOT, EISDIR, ENAMETOOLONG, ENOENT, ENOSPC, ENOTDIR, EPERM, EROFS
from pathlib import Path

from walrelay.errors import Retryable, SinkError

_NO_SPACE = {ENOSPC, EDQUOT}
_FOR_EVER = {EACCES, EISDIR, ENAMETOOLONG, ENOENT, ENOTDIR, EPERM, EROFS}
_BLOCK = 2**16  # bytes that are looked through for a line's end at a time


class NotNow(Exception):
    """The disk is full, or another process writes to the file; the text says so. The same may be tried again."""


class LineFile:
    """Open, and locked against other writers, until `close`."""

    def __init__(self, path: Path) -> None:
        """NotNow, Retryable or Fatal where that does not work."""
        self.path, self.lock_path = path, path.with_name(f"{path.name}.lock")
        self._lock = self._descriptor = -1
        self._size = 0  # of whole lines; a part of one may be behind them
        try:
            with _explained(path):
                self._take_lock()
                self._open()
        except BaseException:
            self.close()
            raise

    def append(self, lines: bytes) -> None:
        """Waits for the disk. After NotNow nothing of it is there that stays; the same is to be tried again."""
        with _explained(self.path):
            if not _is_at(self.lock_path, self._lock):
                raise Retryable(f"{self.lock_path} was removed: another process could write, too", retry_within=0.1)
            if self._descriptor < 0 or not _is_at(
                self.path, self._descriptor
            ):  # moved or removed: the next line begins another one
                self._let_go_of_file()
                self._open()
            elif os.fstat(self._descriptor).st_size != self._size:  # somebody else's lines, or fewer of ours
                self._cut_half_a_line()
            try:
                _write(self._descriptor, lines)
            except OSError:
                with suppress(OSError):  # otherwise it is cut off before the next line
                    os.ftruncate(self._descriptor, self._size)
                raise
            self._size += len(lines)

    def close(self) -> None:
        """May be called twice: the numbers may be other files' by then."""
        self._let_go_of_file()
        lock, self._lock = self._lock, -1
        if lock >= 0:
            with suppress(OSError):
                os.close(lock)

    def _take_lock(self) -> None:
        self._lock = os.open(self.lock_path, os.O_RDWR | os.O_CREAT, 0o644)
        _lock(self._lock, self.lock_path)
        if not _is_at(self.lock_path, self._lock):
            raise NotNow(f"{self.lock_path} was removed meanwhile")

    def _open(self) -> None:
        self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            _lock(self._descriptor, self.path)  # where links lead to one file, each has a lock beside it
            _sync_directory(self.path)
            self._cut_half_a_line()
        except BaseException:
            self._let_go_of_file()
            raise

    def _let_go_of_file(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            with suppress(OSError):
                os.close(descriptor)

    def _cut_half_a_line(self) -> None:
        """What a crash or a full disk left behind the last whole line goes."""
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
        self._size = end


def _lock(descriptor: int, path: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise NotNow(f"another sink writes there: {path} is locked") from None


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _write(descriptor: int, lines: bytes) -> None:
    """Waits for the disk."""
    rest = memoryview(lines)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
    os.fdatasync(descriptor)


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
            raise NotNow(text) from why
        if why.errno in _FOR_EVER:
            raise SinkError(
                text, hint="sink.path belongs into a directory that is there and that walrelay may write to."
            ) from why
        raise Retryable(text) from why
