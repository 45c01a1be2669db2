"""Aggregates that collect their events until these are written: what SQLAlchemy and Django have in common."""

from collections.abc import Callable
from itertools import count
from weakref import ref

_sequence = count()


class Recorded:
    """An event that an aggregate recorded.

    `scope`: the transaction or savepoint that it was written in, as its writer identifies it; `savepoints`: how many
    there had been. `changed`: the attributes with unwritten changes when it was recorded.
    """

    __slots__ = ("__weakref__", "changed", "event", "number", "savepoints", "scope")

    def __init__(self, event: object, changed: frozenset[str] = frozenset()) -> None:
        self.event = event
        self.changed = changed
        self.number = next(_sequence)  # the order among all aggregates
        self.scope: object = None
        self.savepoints = 0

    def resolved(self) -> object:
        """The event, or what its function returns now: after a rollback the object may get another key."""
        return self.event() if callable(self.event) else self.event


class Recordings:
    """The events of one object: a copy has none, and neither has an unpickled object.

    A copy is another row, if it is a row at all, and a cache outlives the transaction: both would write an event twice.
    `waiting` are to be written with the object, `written` were written in a transaction that is still open.
    """

    __slots__ = ("__weakref__", "_owner", "waiting", "written")

    def __init__(self, owner: object = None) -> None:
        self._owner = None if owner is None else ref(owner)
        self.waiting: list[Recorded] = []
        self.written: list[Recorded] = []

    def of(self, owner: object) -> bool:
        """Whether they are this object's: `copy.copy` of a model copies this attribute too."""
        return self._owner is not None and self._owner() is owner

    def __reduce__(self) -> tuple[type["Recordings"], tuple[()]]:
        return Recordings, ()


class Recording:
    """The events of one aggregate. They stay until the transaction that wrote them is committed."""

    def record(self, event: object | Callable[[], object]) -> None:
        """Notes an Event, or an instance of a registered class, to be written when this object is.

        A function without arguments is called then, when a key that the database makes is known.
        """
        self.recordings.waiting.append(Recorded(event))

    @property
    def recorded_events(self) -> tuple[object, ...]:
        """Events that are not committed yet, in order; functions as they are."""
        return tuple(each.event for each in (*self.recordings.written, *self.recordings.waiting))

    @property
    def recordings(self) -> Recordings:
        """The recordings, for the code that writes them. The libraries make objects without __init__."""
        found = self.__dict__.get("_walrelay_recordings")
        if not isinstance(found, Recordings) or not found.of(self):
            found = self.__dict__["_walrelay_recordings"] = Recordings(self)
        return found
