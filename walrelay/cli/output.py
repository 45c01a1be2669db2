"""Standard output whose reader may be slow, or gone."""

import os
import select

from walrelay.errors import Fatal

_PIPE_BUF = 4096  # what a pipe that poll calls writable takes without blocking (POSIX)
_GONE = select.POLLERR | select.POLLHUP | select.POLLNVAL


class ReaderGone(Exception):
    """Nobody reads standard output any more, as after `| head -1`."""


class Output:
    """Lines that wait to be written to a file descriptor. Not Python's sys.stdout: that would complain at exit."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._poll = select.poll()
        self._waiting = bytearray()

    def add(self, line: bytes) -> None:
        """Takes a line; it waits until `drain`."""
        self._waiting += line + b"\n"

    def __len__(self) -> int:
        """The bytes that wait."""
        return len(self._waiting)

    def drain(self, patience: float | None) -> bool:
        """Writes what waits, as long as the reader takes something within `patience` seconds (None: for ever).

        True if nothing waits any more. ReaderGone as soon as that is known, also when there is nothing to write.
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
