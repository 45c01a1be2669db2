"""Aggregates that collect their events until somebody writes them: what SQLAlchemy's and Django's have in common."""

from collections.abc import Callable
from itertools import count

_sequence = count()


class Recorded:
    """An event that an aggregate recorded. `transaction`: in which it was written; None: it was not, so far."""

    __slots__ = ("event", "number", "transaction")

    def __init__(self, event: object) -> None:
        self.event = event
        self.number = next(_sequence)  # the order among all aggregates
        self.transaction: object = None

    def resolved(self) -> object:
        """The event; of a function what it gives now: after a rollback the object may get another key."""
        return self.event() if callable(self.event) else self.event


class Recording:
    """The events of one aggregate. They stay until the transaction that wrote them is committed."""

    def record(self, event: object | Callable[[], object]) -> None:
        """Notes an Event, or an instance of a registered class, to be written when this object is.

        A function without arguments is called then: when a key that the database makes is known.
        """
        self.recordings.append(Recorded(event))

    @property
    def recorded_events(self) -> tuple[object, ...]:
        """What was recorded and is not committed yet, in order; functions as they are."""
        return tuple(each.event for each in self.recordings)

    @property
    def recordings(self) -> list[Recorded]:
        """For whoever writes them. Objects come out of the database without __init__."""
        found: list[Recorded] = self.__dict__.setdefault("_walrelay_recordings", [])
        return found
