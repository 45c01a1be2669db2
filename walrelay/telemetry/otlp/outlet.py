"""What leaves for a collector: a bounded queue that a thread empties, and a thread that sends again and again."""

from collections import Counter, deque
from collections.abc import Callable, Sequence
from threading import Event, Lock, Thread
from time import monotonic
from typing import Generic, TypeVar

from walrelay.telemetry.otlp.options import Signal

T = TypeVar("T")

ROOM = 2_048  # what waits at most; each of it is a few hundred bytes
BATCH = 512
EVERY = 1.0  # seconds
_AGAIN = 300.0  # seconds between two notices about a collector that is away


class Failures:
    """Says when a collector does not take a signal, at first and every five minutes, and when it does again."""

    def __init__(self, signal: Signal, notice: Callable[[str], None]) -> None:
        self._signal, self._notice = signal, notice
        self._said: float | None = None  # while it fails

    def note(self, why: str) -> None:
        """`why`: empty where it was taken."""
        if not why and self._said is not None:
            self._said = None
            self._notice(f"the OpenTelemetry collector takes {self._signal} again")
        elif why and (self._said is None or monotonic() - self._said >= _AGAIN):
            self._said = monotonic()
            consequence = "these are missing there" if self._signal == "metrics" else "what has no room is dropped"
            self._notice(
                f"the OpenTelemetry collector (otlp.endpoint) does not take {self._signal}, {consequence}: {why}"
            )


class Outlet(Generic[T]):
    """Takes from any thread, at once. What has no room, or cannot be sent, is counted in what came with it."""

    def __init__(
        self, signal: Signal, send: Callable[[Sequence[T]], str], notice: Callable[[str], None], *, room: int = ROOM
    ) -> None:
        """`send` says why it could not, or nothing; it is called by one thread. `notice` is told of trouble."""
        self._signal, self._send, self._most = signal, send, room
        self._failures = Failures(signal, notice)
        self._waiting: deque[tuple[T, Counter[str]]] = deque()
        self._counting, self._wake, self._ended = Lock(), Event(), False
        self._thread = Thread(target=self._empty_often, name=f"otlp {signal}", daemon=True)
        self._thread.start()

    @property
    def room(self) -> int:
        return self._most - len(self._waiting)

    def offer(self, item: T, lost: Counter[str]) -> None:
        if self._ended or self.room <= 0:
            self.lose(1, lost)
            return
        self._waiting.append((item, lost))
        if len(self._waiting) == BATCH:
            self._wake.set()

    def lose(self, number: int, lost: Counter[str]) -> None:
        """Counts what was dropped."""
        with self._counting:
            lost[self._signal] += number

    def end(self) -> None:
        """Takes nothing more; sends what waits."""
        self._ended = True
        self._wake.set()

    def join(self, seconds: float) -> None:
        self._thread.join(seconds)

    def _empty_often(self) -> None:
        while not self._ended:
            self._wake.wait(EVERY)
            self._wake.clear()
            self._empty()
        self._empty()

    def _empty(self) -> None:
        """What came meanwhile too; once it is to end, until something is not taken."""
        while self._waiting:
            batch = [self._waiting.popleft() for _ in range(min(BATCH, len(self._waiting)))]
            try:
                why = self._send([item for item, _ in batch])
            except Exception as error:  # of a library; the next batch may be better
                why = f"{type(error).__name__}: {error}"
            if why:
                for _, lost in batch:
                    self.lose(1, lost)
            self._failures.note(why)
            if why and self._ended:
                for _, lost in self._waiting:
                    self.lose(1, lost)
                self._waiting.clear()


class Pulse:
    """Sends at intervals, from a thread of its own, and once more when it ends."""

    def __init__(
        self, signal: Signal, send: Callable[[bool], str], notice: Callable[[str], None], interval: float
    ) -> None:
        """`send` is told whether it is for the last time, and says why it could not, or nothing."""
        self._send, self._interval, self._failures = send, interval, Failures(signal, notice)
        self._ended = Event()
        self._thread = Thread(target=self._beat, name=f"otlp {signal}", daemon=True)
        self._thread.start()

    def end(self) -> None:
        self._ended.set()

    def join(self, seconds: float) -> None:
        self._thread.join(seconds)

    def _beat(self) -> None:
        last = False
        while not last:
            last = self._ended.wait(self._interval)
            try:
                why = self._send(last)
            except Exception as error:  # of a library
                why = f"{type(error).__name__}: {error}"
            self._failures.note(why)
