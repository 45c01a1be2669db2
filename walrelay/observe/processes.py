"""What happens to a process that runs relays, and to the databases that it finds, as values."""

from collections.abc import Sequence
from typing import NamedTuple


class Listening(NamedTuple):
    """The process answers whoever watches it, at this address."""

    host: str
    port: int


class ProcessStarted(NamedTuple):
    """One of several processes that share the relays of a file, counted from 1."""

    number: int
    pid: int
    relays: Sequence[str]


class ProcessDied(NamedTuple):
    """It ended though nobody had asked; another takes its place in `pause` seconds. `code` is its exit code, or less
    than 0: a signal.
    """

    number: int
    pid: int
    relays: Sequence[str]
    code: int
    pause: float


class ProcessLost(NamedTuple):
    """It has ended because each of its relays had, in an error of its own; happens again while other processes run."""

    number: int
    relays: Sequence[str]
    others_running: int


class DatabaseFound(NamedTuple):
    """The query for databases finds this one now, so its relay is begun."""


class DatabaseGone(NamedTuple):
    """The query for databases does not find this one any more, so its relay is stopped in good order."""


class NotStarted(NamedTuple):
    """The relay of a database ended before it had begun to stream; it is begun again at the next look for databases, in
    about `again_in` seconds.
    """

    cause: str
    again_in: float
