"""Standard output and standard error as the commands find them: no text that cannot be encoded, no failing stderr."""

import codecs
import io
import os
import sys
from contextlib import suppress
from typing import Any, TextIO

_ESCAPES = "walrelay.json_escapes"


def prepare() -> None:
    """Before a command runs. Streams that somebody else put in place, as tests do, keep their place."""
    codecs.register_error(_ESCAPES, _json_escapes)
    if _is(sys.stdout, 1):
        sys.stdout = _over(_Named(1, "w", closefd=False), sys.stdout)
    if _is(sys.stderr, 2):
        sys.stderr = _over(_Uncomplaining(2, "w", closefd=False), sys.stderr)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_ESCAPES)


def abandon() -> None:
    """What could not be written is dropped: the interpreter would try again at its end, and fail with a status of its
    own (120) and a traceback.
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
    """Errors say what could not be written."""

    def write(self, data: Any) -> int | None:  # type: ignore[override]  # None as its parent does
        try:
            return super().write(data)
        except OSError as error:
            raise OSError(error.errno, error.strerror, "standard output") from None


class _Uncomplaining(io.FileIO):
    """A message that cannot be written (a full disk) is no reason to leave the work half done."""

    def write(self, data: Any) -> int | None:  # type: ignore[override]  # None as its parent does
        try:
            return super().write(data)
        except OSError:
            return len(data)


def _is(stream: TextIO, descriptor: int) -> bool:
    try:
        return stream.fileno() == descriptor
    except (OSError, ValueError):  # of a test, in memory
        return False


def _over(raw: io.FileIO, stream: TextIO) -> io.TextIOWrapper:
    """In place of the stream, with the encoding and the buffering that it has."""
    return io.TextIOWrapper(
        io.BufferedWriter(raw), encoding=stream.encoding, line_buffering=bool(stream.line_buffering)
    )


def _json_escapes(error: UnicodeError) -> tuple[str, int]:
    """As JSON writes what an encoding cannot: valid in a JSON text, legible in any other."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    missing = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass")
    units = (missing[at : at + 2].hex() for at in range(0, len(missing), 2))
    return "".join(f"\\u{unit}" for unit in units), error.end
