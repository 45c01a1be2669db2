"""The signals that ask a command to end."""

import signal
from threading import Event, Thread
from types import FrameType

_ASKING = (signal.SIGTERM, signal.SIGINT)


def signalled() -> Event:
    """Set by the first SIGTERM or SIGINT; the second one, of either kind, ends the process at once."""
    stop = Event()

    def asked(number: int, frame: FrameType | None) -> None:
        for number in _ASKING:
            signal.signal(number, signal.SIG_DFL)
        # From a thread: the signal may have interrupted the main one inside of stop.wait, where it holds the lock.
        Thread(target=stop.set, name="stop").start()

    for number in _ASKING:
        signal.signal(number, asked)
    return stop
