"""The leader cleans up: passes in a thread of the relay's process, on their own connection, for as long as it leads."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from time import monotonic

from walrelay.errors import WalrelayError
from walrelay.observe import CleanedUp, NotCleanedUp, Observer
from walrelay.operations.cleanup.cleanup import cleaning
from walrelay.operations.cleanup.request import CleanupReport, CleanupRequest
from walrelay.postgres.catalog import Catalog
from walrelay.wiring import Wiring

_FIRST = 10.0  # seconds after the relay began to stream
_SHORTEST, _LONGEST = 1.0, 6 * 3600.0  # seconds between two passes
_AFTER_AN_ERROR = 300.0
_PATIENCE = 60.0  # for slots to confirm
_FAREWELL = 0.5  # seconds for the current batch when the relay stops


class Retention:
    """One for a process: it knows from one run to the next how far a pass got."""

    def __init__(self, wiring: Wiring, observer: Observer) -> None:
        self._wiring, self._observer = wiring, observer
        age = wiring.retention
        self._pause = _LONGEST if age is None else min(_LONGEST, max(_SHORTEST, age / 10))
        self._request = CleanupRequest(age, patience=_PATIENCE)
        self._reached: dict[str, int] = {}
        self._told: set[str] = set()

    @contextmanager
    def while_leading(self, catalog: Catalog) -> Iterator[None]:
        """An error in the thread is reported, and does not affect the relay."""
        if self._request.older_than is None and not catalog.published("", self._wiring.table).partitioned:
            yield
            return
        stop = Event()
        thread = Thread(target=self._work, args=(stop,), name="retention", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join(_FAREWELL)

    def _work(self, stop: Event) -> None:
        pause = min(_FIRST, self._pause)
        while not stop.wait(pause):
            pause = self._pause if self._attempt(stop.wait) else min(_AFTER_AN_ERROR, self._pause)

    def _attempt(self, wait: Callable[[float], bool]) -> bool:
        try:
            self._pass(wait)
        except WalrelayError as error:
            self._observer.saw(NotCleanedUp(str(error)))
            return False
        except Exception as error:  # a bug here is no reason to stop publishing
            self._observer.saw(NotCleanedUp(f"{type(error).__name__}: {error}"))
            return False
        return True

    def _pass(self, wait: Callable[[float], bool]) -> None:
        begun = monotonic()
        with cleaning(self._wiring, self._request, wait, self._reached) as (steps, tally):
            for _ in steps:
                if wait(0):
                    break
        self._tell(tally, monotonic() - begun)

    def _tell(self, tally: CleanupReport, seconds: float) -> None:
        self._observer.saw(CleanedUp(tally.rows, tally.dropped, tally.made, seconds))
        for note in sorted({*tally.notes} - self._told):
            self._observer.saw(NotCleanedUp(note))
        self._told = {*tally.notes}
