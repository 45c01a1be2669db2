"""Several processes as one: a parent that forks them, starts again what dies, passes a stop on and ends with the last.

The parent has no thread, no connection and no client library open when it forks, so a child begins with the parent's
modules and settings and nothing else. Orders go through a pipe and not as signals: a supervisor or a terminal may
signal the children as well, and a second signal means to leave at once. A parent that dies closes the pipe, and then
its children stop: nobody would watch them any more.
"""

import os
import select
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from math import inf
from threading import Thread
from time import monotonic
from typing import NamedTuple, NoReturn

from walrelay.cli.ending import BY_SIGNAL, DONE, FAILED
from walrelay.observe import Noticed, Observer
from walrelay.observe.processes import ProcessDied, ProcessLost, ProcessStarted
from walrelay.supervise import Backoff, Stop
from walrelay.telemetry.systemd import NOTIFY_SOCKET
from walrelay.telemetry.systemd_processes import UnitNotifier

_ASKING = (signal.SIGTERM, signal.SIGINT)
_STOP, _LEAVE = b"s", b"l"
_LONG = 60.0  # seconds: a process that lived for so long did not die of what it started with
_AGAIN = 30.0  # seconds between two lines about a process that has ended for good


class Work(NamedTuple):
    """What a process does: it runs the relays of these names. `run` returns its exit code; the descriptor that it gets
    is for `obey`.
    """

    relays: Sequence[str]
    run: Callable[[int], int]


def shares(names: Sequence[str], processes: int) -> list[list[str]]:
    """The names of each process: always the same for a file, and even within one."""
    return [list(names[number::processes]) for number in range(min(processes, len(names)))]


def obey(orders: int, stop: Stop, leave: Callable[[], NoReturn]) -> None:
    """In a child, when its own handlers of signals are in place: the parent's orders are done from now on."""

    def listen() -> None:
        while (order := os.read(orders, 1)) == _STOP:
            stop.set()
        if order == _LEAVE:
            leave()
        stop.set()  # the parent is gone

    Thread(target=listen, name="orders", daemon=True).start()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ASKING)


class _Child:
    def __init__(self, number: int, work: Work) -> None:
        self.number, self.work = number, work
        self.pid = self.orders = -1
        self.failures, self.since = 0, 0.0
        self.due: float | None = 0.0  # when it is to be started, unless it runs or has ended for good

    @property
    def runs(self) -> bool:
        return self.pid > 0

    def order(self, what: bytes) -> None:
        if self.runs:
            with suppress(OSError):  # it has just ended
                os.write(self.orders, what)


class Processes:
    """One process for each work."""

    def __init__(self, works: Sequence[Work], observer: Observer, backoff: Backoff) -> None:
        self._children = [_Child(number, work) for number, work in enumerate(works, 1)]
        self._observer, self._backoff = observer, backoff
        self._asked, self._clean, self._told = 0, True, -inf
        systemd = os.environ.get(NOTIFY_SOCKET)
        self._unit = UnitNotifier(systemd, os.environ) if systemd else None

    def run(self) -> int:
        """Returns when all have ended: 0 if each did so in good order, as it was asked to. After a second signal that
        is the exit code of a process that left at once.
        """
        self._wakes, writing = os.pipe()
        os.set_blocking(self._wakes, False)
        os.set_blocking(writing, False)
        signal.set_wakeup_fd(writing)
        for number in (*_ASKING, signal.SIGCHLD):
            signal.signal(number, lambda number, frame: None)  # without one nothing is written to the descriptor
        self._sources = [self._wakes] if self._unit is None else [self._wakes, self._unit.fileno()]
        code = DONE
        while any(child.runs or child.due is not None for child in self._children):
            self._start_due()
            select.select(self._sources, [], [], self._patience())
            code = self._heed() or code
            self._reap()
            self._hear()
            self._tell_again()
        return code or (DONE if self._clean else FAILED)

    def _start_due(self) -> None:
        for child in self._children:
            if child.due is not None and child.due <= monotonic():
                try:
                    self._start(child)
                except OSError as cause:  # no memory, for instance, which is no reason to end the others
                    child.failures += 1
                    child.due = monotonic() + self._backoff.pause(child.failures, None)
                    why = f"process {child.number} cannot be started, and is tried again: {cause.strerror}"
                    self._observer.saw(Noticed(why))

    def _start(self, child: _Child) -> None:
        reading, writing = os.pipe()
        signal.pthread_sigmask(signal.SIG_BLOCK, _ASKING)  # until the child has handlers of its own
        try:
            pid = os.fork()
        except OSError:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _ASKING)
            os.close(reading)
            os.close(writing)
            raise
        if not pid:
            os.close(writing)
            self._become(child, reading)
        os.close(reading)
        child.pid, child.orders, child.since, child.due = pid, writing, monotonic(), None
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _ASKING)
        self._observer.saw(ProcessStarted(child.number, pid, child.work.relays))

    def _become(self, child: _Child, orders: int) -> NoReturn:
        """The others' pipes are closed here, so that they are closed when the parent has gone."""
        code = FAILED
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for other in self._children:
                if other.runs:
                    os.close(other.orders)
            code = child.work.run(orders)
        finally:
            os._exit(code)

    def _patience(self) -> float:
        """Seconds until there is something to do, if no signal comes before."""
        moments = [child.due for child in self._children if child.due is not None]
        if self._lost:
            moments.append(self._told + _AGAIN)
        patience = max(0.0, min(moments) - monotonic()) if moments else _AGAIN
        return min(patience, self._unit.interval) if self._unit is not None else patience

    def _heed(self) -> int:
        """Passes on what the signals ask for; the exit code of a process that is to leave at once."""
        signals = b""
        with suppress(BlockingIOError):
            signals = os.read(self._wakes, 100)
        for number in signals:
            if number in _ASKING:
                self._asked += 1
                if self._unit is not None:
                    self._unit.stopping()
                for child in self._children:
                    child.order(_STOP if self._asked == 1 else _LEAVE)
                    child.due = None
                if self._asked > 1:
                    return BY_SIGNAL + number
        return 0

    def _reap(self) -> None:
        for child in self._children:
            if child.runs:
                pid, status = os.waitpid(child.pid, os.WNOHANG)
                if pid:
                    self._ended(child, os.waitstatus_to_exitcode(status))

    def _hear(self) -> None:
        if self._unit is None:
            return
        running = [child.pid for child in self._children if child.runs]
        others = (child for child in self._children if not child.runs)
        with suppress(Exception):  # whoever only watches must not end what it watches
            self._unit.hear(running, all_begun=all(child.since for child in others))

    def _ended(self, child: _Child, code: int) -> None:
        os.close(child.orders)
        pid, child.pid = child.pid, -1
        if code == FAILED or self._asked:  # each of its relays needs an operator
            self._clean &= code == DONE
            self._told = -inf
            return
        child.failures = 1 if monotonic() - child.since > _LONG else child.failures + 1
        pause = self._backoff.pause(child.failures, None)
        child.due = monotonic() + pause
        self._observer.saw(ProcessDied(child.number, pid, child.work.relays, code, pause))

    @property
    def _lost(self) -> list[_Child]:
        """The processes that have ended for good while others run."""
        return [] if self._asked else [child for child in self._children if not child.runs and child.due is None]

    def _tell_again(self) -> None:
        others = sum(child.runs or child.due is not None for child in self._children)
        if self._lost and others and monotonic() >= self._told + _AGAIN:
            self._told = monotonic()
            for child in self._lost:
                self._observer.saw(ProcessLost(child.number, child.work.relays, others))
