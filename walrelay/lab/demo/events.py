"""What writer and reader tell: values in a queue, in the order in which things happened on either side."""

from queue import SimpleQueue
from typing import NamedTuple

from walrelay.lab.demo.shop import Change


class Committed(NamedTuple):
    """COMMIT returned at that time: Unix time in nanoseconds, as everywhere here."""

    id: str
    change: Change
    at_ns: int


class RolledBack(NamedTuple):
    """An outbox row was written and its transaction rolled back: the event must not arrive."""

    id: str


class Arrived(NamedTuple):
    """The consumer got a message: the id header, the key, and the step from the payload."""

    id: str
    key: str
    step: int
    at_ns: int


class WriterDone(NamedTuple):
    """Nothing more will be written."""


class Failed(NamedTuple):
    """Writer or reader gave up."""

    who: str
    error: Exception


Item = Committed | RolledBack | Arrived | WriterDone | Failed
News = SimpleQueue[Item]
