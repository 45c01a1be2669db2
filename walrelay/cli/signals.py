"""The signals that ask a command to end."""

import os
import signal
from collections.abc import Callable
from threading import Event, Thread

_ASKING = (signal.SIGTERM, signal.SIGINT)
_AS_BY_SIGNAL = 128  # what a shell adds to the signal's number


def signalled(leaving: Callable[[], None] = lambda: None) -> Event:
    """Set by the first SIGTERM or SIGINT; the second one, of either kind, ends the process at once, after `leaving`.

    The signals go to a thread: the main one may be deep inside a client library, where no Python handler runs, or
    inside of stop.wait, where it holds the lock.
    """
    stop = Event()
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing)
    for number in _ASKING:
        signal.signal(number, lambda number, frame: None)  # without one nothing is written to the descriptor
    Thread(target=_listen, args=(reading, stop, leaving), name="signals", daemon=True).start()
    return stop


def _listen(reading: int, stop: Event, leaving: Callable[[], None]) -> None:
    while (number := os.read(reading, 1)[0]) not in _ASKING or not stop.is_set():
        if number in _ASKING:
            stop.set()
    try:
        leaving()
    finally:
        os._exit(_AS_BY_SIGNAL + number)
