"""Says where the process stands when none of its threads gets on.

A library that keeps the interpreter's lock while it waits stops them all, and log, health and signals with them. So the
report is one of the interpreter's own, which needs no lock: the traceback of every thread on stderr, again and again.
"""

import faulthandler
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

_LONG = 60.0  # seconds
_STDERR = 2


@contextmanager
def standstill_reported(after: float = _LONG) -> Iterator[None]:
    """For as long as the block lasts, after so many seconds in which nothing of Python ran."""
    ended = Event()
    thread = Thread(target=_put_off, args=(after, ended), name="standstill", daemon=True)
    _arm(after)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        faulthandler.cancel_dump_traceback_later()


def _put_off(after: float, ended: Event) -> None:
    while not ended.wait(after / 4):
        _arm(after)


def _arm(after: float) -> None:
    faulthandler.dump_traceback_later(after, repeat=True, file=_STDERR)
