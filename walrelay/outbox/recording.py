"""Aggregates that collect their events until somebody writes them: what SQLAlchemy's and Django's have in common."""

from collections.abc import Callable
from itertools import count
from weakref import ref

_sequence = count()


class Recorded:
    """An event that an aggregate recorded.

    `scope`: the transaction or savepoint that it was written in, as whoever writes knows it; `savepoints`: how many
    there had been. `changed`: the attributes that had changes which were not written when it was recorded.
    """

    __slots__ = ("__weakref__", "changed", "event", "number", "savepoints", "scope")

    def __init__(self, event: object, changed: frozenset[str] = frozenset()) -> None:
        self.event = event
        self.changed = changed
        self.number = next(_sequence)  # the order among all aggregates
        self.scope: object = None
        self.savepoints = 0

    def resolved(self) -> object:
        """The event; of a function what it gives now: after a rollback the object may get another key."""
        return self.event() if callable(self.event) else self.event


class Recordings:
    """The events of one object and of no other: a copy has none, and neither has what comes out of a pickle.

    A copy is another row, if it is one at all, and a cache outlives the transaction: either would write an event twice.
    `waiting` are to be written with the object, `written` are so, in a transaction that is not at its end.
    """

    __slots__ = ("__weakref__", "_owner", "waiting", "written")

    def __init__(self, owner: object = None) -> None:
        self._owner = None if owner is None else ref(owner)
        self.waiting: list[Recorded] = []
        self.written: list[Recorded] = []

    def of(self, owner: object) -> bool:
        """Whether they are this object's: `copy.copy` of a model takes over whatever the model has."""
        return self._owner is not None and self._owner() is owner

    def __reduce__(self) -> tuple[type["Recordings"], tuple[()]]:
        return Recordings, ()


class Recording:
    """The events of one aggregate. They stay until the transaction that wrote them is committed."""

    def record(self, event: object | Callable[[], object]) -> None:
        """Notes an Event, or an instance of a registered class, to be written when this object is.

        A function without arguments is called then: when a key that the database makes is known.
        """
        self.recordings.waiting.append(Recorded(event))

    @property
    def recorded_events(self) -> tuple[object, ...]:
        """What was recorded and is not committed yet, in order; functions as they are."""
        return tuple(each.event for each in (*self.recordings.written, *self.recordings.waiting))

    @property
    def recordings(self) -> Recordings:
        """For whoever writes them. Objects come out of the database without __init__."""
        found = self.__dict__.get("_walrelay_recordings")
        if not isinstance(found, Recordings) or not found.of(self):
            found = self.__dict__["_walrelay_recordings"] = Recordings(self)
        return found
