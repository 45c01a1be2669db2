"""Lines in a file: durable is what the disk has. A full disk, and another writer, are waited for."""

from collections import Counter
from collections.abc import Callable, Iterable
from time import monotonic, sleep

from walrelay.lsn import LSN, ZERO
from walrelay.model import Message, Receipt
from walrelay.sinks.file.line_file import LineFile, NotNow
from walrelay.sinks.stdout import line

_ROOM = 8 * 2**20  # bytes that may wait for the disk
_WRITE = 2**20  # bytes that are written though nobody asks for receipts
_AGAIN = 0.2  # seconds until it is tried again
_SOON = 0.005  # seconds that lines may wait for others while more come: each time on disk costs a millisecond or more


class FileSink:
    """Implements `walrelay.publish.Sink`. `open_file`: raises what `LineFile` does."""

    def __init__(self, open_file: Callable[[], LineFile]) -> None:
        self._open_file = open_file
        self._file: LineFile | None = None
        self._waiting: list[bytes] = []
        self._bytes = 0
        self._unsettled = Counter[int]()  # of the lines that wait, by ticket
        self._settled = Counter[int]()
        self._trouble, self._try_at = "", 0.0
        self._first_at = 0.0  # when the first line came of those that wait
        self._took = 0.0  # seconds, the last time on disk

    def publish(self, message: Message, ticket: int) -> bool:
        if self._bytes >= _WRITE:
            self._write(0)
            if self._bytes >= _ROOM:
                return False
        text = line(message)
        if not self._waiting:
            self._first_at = monotonic()
        self._waiting.append(text)
        self._bytes += len(text)
        self._unsettled[ticket] += 1
        return True

    def mark(self, end_lsn: LSN, commit_lsn: LSN = ZERO, ordinal: int = 0, *, over: bool = False) -> None:
        pass

    def receipts(self, timeout: float) -> Iterable[Receipt]:
        """Who does not wait is in the middle of more: then lines wait for as long as the disk takes for them."""
        if timeout or monotonic() - self._first_at >= max(_SOON, self._took):
            self._write(timeout)
        settled, self._settled = self._settled, Counter()
        return [Receipt(ticket, count) for ticket, count in settled.items()]

    def flush(self, timeout: float) -> None:
        self._write(timeout)

    def close(self) -> None:
        self._waiting, self._bytes = [], 0
        if self._file is not None:
            self._file.close()

    def descriptor(self) -> int | None:
        return None

    def trouble(self) -> str:
        return self._trouble

    def _write(self, timeout: float) -> None:
        """Takes up to `timeout` seconds where it cannot be done: the caller asks again at once."""
        if not self._waiting:
            return
        began = monotonic()
        if self._trouble and (left := self._try_at - began) > 0:
            sleep(min(left, timeout))
            if timeout < left:
                return
        try:
            if self._file is None:
                self._file = self._open_file()
            self._file.append(b"".join(self._waiting))
        except NotNow as why:
            self._trouble, self._try_at = str(why), monotonic() + _AGAIN
            return
        self._trouble, self._took = "", monotonic() - began
        self._settled += self._unsettled
        self._unsettled = Counter()
        self._waiting, self._bytes = [], 0
