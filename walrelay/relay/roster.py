"""Relays that come and go while the process runs, each in a thread of its own: one for each place that a look finds.

A look that fails stops nothing: the relays run on where the last one found them.
"""

from collections.abc import Callable, Mapping
from threading import Lock, Thread
from time import monotonic
from typing import Generic, NamedTuple, TypeVar

from walrelay.observe import Happening, Noticed
from walrelay.observe.processes import DatabaseFound, DatabaseGone
from walrelay.supervise import Stop

Place = TypeVar("Place")

_LEAVING = 0.05  # seconds after which it is seen that a relay has left


class _Running(NamedTuple, Generic[Place]):
    place: Place
    stop: Stop
    thread: Thread


class Roster(Generic[Place]):
    """The relays by name. One that ends in an error stays ended until its place is another, and the others go on."""

    def __init__(
        self,
        look: Callable[[], Mapping[str, Place]],
        relay: Callable[[str, Place, Stop], None],
        told: Callable[[str, Happening], None],
        ended: Callable[[str, Exception, int], None],
    ) -> None:
        """`relay` runs the relay of that name there until the stop is set. If it returns before, it is called again
        after the next look; if it raises, `ended` is told so, with how many others run, and again after each look.
        `told`: what happens to a relay; the name is empty for what is no relay's.
        """
        self._look, self._relay, self._told, self._ended = look, relay, told, ended
        self._running, self._failed = dict[str, _Running[Place]](), dict[str, Exception]()
        self._leaving = dict[str, _Running[Place]]()  # their places are others now
        self._lock, self._trouble = Lock(), ""

    def run(self, first: Mapping[str, Place], interval: float, stop: Stop) -> bool:
        """Until `stop` is set and all relays have left; whether none of them had ended in an error. `first`: what was
        found already; `interval`: seconds between two looks.
        """
        looks = Thread(target=self._keep_looking, args=(first, interval, stop), name="databases", daemon=True)
        looks.start()  # a stop must not wait for a server that does not answer
        stop.wait()
        with self._lock:  # none is started from now on
            running = [*self._running.values(), *self._leaving.values()]
        for each in running:
            each.stop.set()
        for each in running:
            each.thread.join()
        return not self._failed

    def _keep_looking(self, first: Mapping[str, Place], interval: float, stop: Stop) -> None:
        self._follow(first, stop)
        places = first
        while not self._wait(places, interval, stop):
            places = self._looked(places)
            self._follow(places, stop)
            for name, error in [*self._failed.items()]:
                self._ended(name, error, self._others)

    def _wait(self, places: Mapping[str, Place], seconds: float, stop: Stop) -> bool:
        """Until it is stopped, which is returned, or for so long. A relay that leaves slowly holds up its successor
        alone.
        """
        until = monotonic() + seconds
        while self._leaving and (left := until - monotonic()) > 0:
            if stop.wait(min(left, _LEAVING)):
                return True
            with self._lock:
                for name in self._left():
                    if name in places and not stop.is_set():
                        self._start(name, places[name])
        return stop.wait(max(0.0, until - monotonic()))

    def _looked(self, before: Mapping[str, Place]) -> Mapping[str, Place]:
        try:
            places = self._look()
        except Exception as error:  # the relays that run need no look
            if str(error) != self._trouble:
                self._trouble = str(error)
                self._told("", Noticed(f"new databases cannot be looked for, and all relays go on: {error}"))
            return before
        self._trouble = ""
        for name in places.keys() - before.keys():
            self._told(name, DatabaseFound())
        for name in before.keys() - places.keys():
            self._told(name, DatabaseGone())
        return places

    def _follow(self, places: Mapping[str, Place], stop: Stop) -> None:
        """A relay whose place is another leaves in good order before it begins there."""
        with self._lock:
            for name in [name for name, each in self._running.items() if places.get(name) != each.place]:
                self._leaving[name] = self._running.pop(name)
                self._leaving[name].stop.set()
            self._left()
            for name, place in places.items():
                before = self._running.get(name)
                idle = before is None or (not before.thread.is_alive() and name not in self._failed)
                if idle and name not in self._leaving and not stop.is_set():
                    self._start(name, place)

    def _left(self) -> list[str]:
        """The names of those that have left since the last call."""
        left = [name for name, each in self._leaving.items() if not each.thread.is_alive()]
        for name in left:
            del self._leaving[name]
            self._failed.pop(name, None)
        return left

    def _start(self, name: str, place: Place) -> None:
        try:
            stop = Stop()
            thread = Thread(target=self._keep, args=(name, place, stop), name=name)
            thread.start()
        except (OSError, RuntimeError) as error:  # no descriptor or thread is left; the next look tries again
            self._told(name, Noticed(f"this relay cannot be begun now: {error}"))
        else:
            self._running[name] = _Running(place, stop, thread)

    def _keep(self, name: str, place: Place, stop: Stop) -> None:
        try:
            self._relay(name, place, stop)
        except Exception as error:
            self._failed[name] = error
            self._ended(name, error, self._others)

    @property
    def _others(self) -> int:
        running = [*self._running.items()]
        return sum(each.thread.is_alive() and name not in self._failed for name, each in running)
