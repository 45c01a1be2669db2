"""Standard output and standard error: text that cannot be encoded, a stderr that fails, a reader that is slow
or gone.
"""

import codecs
import io
import os
import select
import sys
from contextlib import suppress
from typing import Any, TextIO

from walrelay.errors import Fatal

_ESCAPES = "walrelay.json_escapes"


def prepare() -> None:
    """Called before a command runs. Streams that were replaced, as tests do, stay."""
    codecs.register_error(_ESCAPES, _json_escapes)
    if _is(sys.stdout, 1):
        sys.stdout = _over(_Named(1, "w", closefd=False), sys.stdout)
    if _is(sys.stderr, 2):
        sys.stderr = _over(_Uncomplaining(2, "w", closefd=False), sys.stderr)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_ESCAPES)


def abandon() -> None:
    """Drops what could not be written: the interpreter would try again at its end, and fail with status 120 and a
    traceback.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            with suppress(OSError, ValueError):
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, stream.fileno())
                os.close(nowhere)
                stream.flush()


class _Named(io.FileIO):
    """A stream whose errors name standard output."""

    def write(self, data: Any) -> int | None:  # type: ignore[override]  # None as its parent does
        try:
            return super().write(data)
        except OSError as error:
            raise OSError(error.errno, error.strerror, "standard output") from None


class _Uncomplaining(io.FileIO):
    """Ignores errors: a message that cannot be written (a full disk) must not end the work half done."""

    def write(self, data: Any) -> int | None:  # type: ignore[override]  # None as its parent does
        try:
            return super().write(data)
        except OSError:
            return len(data)


def _is(stream: TextIO, descriptor: int) -> bool:
    try:
        return stream.fileno() == descriptor
    except (OSError, ValueError):  # in memory, in a test
        return False


def _over(raw: io.FileIO, stream: TextIO) -> io.TextIOWrapper:
    """A stream over `raw` that has the encoding and the buffering of `stream`."""
    return io.TextIOWrapper(
        io.BufferedWriter(raw), encoding=stream.encoding, line_buffering=bool(stream.line_buffering)
    )


def _json_escapes(error: UnicodeError) -> tuple[str, int]:
    """Characters that the encoding lacks, as JSON escapes: valid in a JSON text, legible in any other."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    missing = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass")
    units = (missing[at : at + 2].hex() for at in range(0, len(missing), 2))
    return "".join(f"\\u{unit}" for unit in units), error.end


_PIPE_BUF = 4096  # what a pipe that poll calls writable takes without blocking (POSIX)
_GONE = select.POLLERR | select.POLLHUP | select.POLLNVAL


class ReaderGone(Exception):
    """Standard output is not read any more, as after `| head -1`."""


class Output:
    """Lines that wait to be written to a file descriptor. Python's sys.stdout would report an error at exit."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._poll = select.poll()
        self._waiting = bytearray()

    def add(self, line: bytes) -> None:
        """The line waits until `drain`."""
        self._waiting += line + b"\n"

    def __len__(self) -> int:
        """The bytes that wait."""
        return len(self._waiting)

    def drain(self, patience: float | None) -> bool:
        """Writes as long as the reader takes something within `patience` seconds (None: for ever).

        True if nothing waits any more. ReaderGone as soon as that is known, even with nothing to write.
        """
        while self._writable(patience if self._waiting else 0):
            try:
                count = os.write(self._descriptor, self._waiting[:_PIPE_BUF])
            except BrokenPipeError:
                raise ReaderGone from None
            except OSError as error:
                raise Fatal(f"standard output: {error.strerror}") from error
            del self._waiting[:count]
        return not self._waiting

    def _writable(self, patience: float | None) -> bool:
        """Whether something waits and can be written."""
        self._poll.register(self._descriptor, select.POLLOUT if self._waiting else 0)
        events = self._poll.poll(None if patience is None else patience * 1000)
        if any(event & _GONE for _, event in events):
            raise ReaderGone
        return bool(events)


def printable(text: str) -> str:
    """What a terminal would obey is shown as it is written: texts of events and of tables may be anybody's."""
    return text if text.isprintable() else ascii(text)[1:-1]
