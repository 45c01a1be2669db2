"""Rows of the table published again: routed by the rules of today, marked as replayed, and paced."""

from collections.abc import Callable, Sequence
from time import monotonic

from walrelay.model import REPLAYED, AnyRecord, Message, OutboxRecord
from walrelay.route import Routing

_BEHIND = 0.05  # seconds that may be caught up on after a wait for the broker: more would be a burst
_FINE = 0.001  # seconds that it is not worth to sleep


class Again:
    """Routes as `routing` does, or everything to one topic, and adds the header that tells consumers."""

    def __init__(self, routing: Routing, topic: str | None = None) -> None:
        self._route, self._topic = routing.route, topic

    def route(self, record: AnyRecord) -> Sequence[Message]:
        if self._topic is not None and isinstance(record, OutboxRecord):
            record = record._replace(topic=self._topic)
        return [each._replace(headers=[*each.headers, REPLAYED]) for each in self._route(record)]


class Pace:
    """So many events a second, evenly; `rate` None: as many as the broker takes."""

    def __init__(
        self,
        rate: float | None,
        stop: Callable[[], bool],
        wait: Callable[[float], object],
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """`wait`: returns after so many seconds, or as soon as `stop` is true."""
        self._interval = 1 / rate if rate else 0.0
        self._stop, self._wait, self._clock = stop, wait, clock
        self._due = clock() - self._interval

    def turn(self) -> bool:
        """Waits for the next event's turn; False if a stop was asked for meanwhile."""
        if self._interval:
            self._due = max(self._due + self._interval, self._clock() - _BEHIND)
            while (left := self._due - self._clock()) > _FINE and not self._stop():
                self._wait(left)
        return not self._stop()
