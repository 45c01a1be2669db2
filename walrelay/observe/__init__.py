"""What happens to a relay, as values, and who sees it."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from walrelay.dead_letter import DeadLetter
from walrelay.errors import Fatal
from walrelay.lsn import LSN, ZERO
from walrelay.model import Message, Skipped
from walrelay.observe.processes import (
    DatabaseFound,
    DatabaseGone,
    Listening,
    NotStarted,
    ProcessDied,
    ProcessLost,
    ProcessStarted,
)


class StandingBy(NamedTuple):
    """Another instance leads; this one waits until it does not any more."""

    slot: str


class TakingOver(NamedTuple):
    """This instance stood by, and begins to run the relay. It happens in another thread than the relay's."""

    slot: str
    why: str


class GivingUp(NamedTuple):
    """This instance stops in good order, for another one to lead. It happens in another thread as well."""

    slot: str
    why: str


class Leads(NamedTuple):
    """This instance leads from now on, or does not any more. It leads while it is paused or retries, too."""

    leads: bool


class Streaming(NamedTuple):
    """A run began: the slot streams from `start`."""

    slot: str
    start: LSN
    plugin: str


class Relayed(NamedTuple):
    """One turn of the loop decoded so many records and handed so many messages to the sink: those `taken`. `sizes`: the
    records of each transaction that ended in this turn. `unsettled` messages waited for their receipt then. The last
    message is of the transaction `last`. The frames were read at `read_at` (Unix time, by this process's clock).
    """

    records: int
    messages: int
    taken: Sequence[Message] = ()
    sizes: Sequence[int] = ()
    unsettled: int = 0
    last: LSN = ZERO
    read_at: float = 0.0


class Turned(NamedTuple):
    """One turn of the loop found nothing to relay, or waited once more for what holds it up."""


TURNED = Turned()


class Settled(NamedTuple):
    """A transaction is durable, `since_commit` seconds after its commit by the server's clock, and `since_read` seconds
    after it was read, and so is all that was read before it. `commit_lsn` says which. Happens for the last transaction
    of each turn: all of them where they are few.
    """

    since_commit: float
    since_read: float
    commit_lsn: LSN = ZERO


class Behind(NamedTuple):
    """The oldest transaction that is not settled was committed at `since` (microseconds since 1970, by the server's
    clock), and has waited for more than a second; None: none has.
    """

    since: int | None


class WaitedForRoom(NamedTuple):
    """The sink had no room for so many more seconds, in which nothing was read: back-pressure. Happens again and again
    while it has none.
    """

    seconds: float


class WaitedForRegistry(NamedTuple):
    """The same, because the registry that has a record's schema is away."""

    seconds: float
    why: str
    hint: str = ""


class Acknowledged(NamedTuple):
    """The sink gave receipts for so many messages; `unsettled` others wait for theirs."""

    messages: int
    unsettled: int


class Confirmed(NamedTuple):
    """PostgreSQL knows that everything before `lsn` is durable; `unsettled` messages wait for their receipt."""

    lsn: LSN
    unsettled: int


class Stalled(NamedTuple):
    """The sink waits: it has given no receipt for the oldest transaction for `seconds`, or says that its broker is away
    or takes nothing. Happens again while it lasts. `away`: for how many seconds it has said so.
    """

    seconds: float
    unsettled: int
    why: str
    away: float = 0.0


class Resumed(NamedTuple):
    """A stall of `seconds` is over, and the sink goes on."""

    seconds: float


class DeadLettered(NamedTuple):
    """A message was refused, or a record not routed or read, and is a dead letter now."""

    letter: DeadLetter


class Dropped(NamedTuple):
    """A rule says that the record at `position` becomes no message."""

    rule: str
    position: str


class Noticed(NamedTuple):
    """The server or a sink said something that needs no action by the relay."""

    text: str


class Retrying(NamedTuple):
    """The run ended in something retryable; the next one begins in `pause` seconds. `lasting`: several did in a row, so
    that somebody should look. `error`: the name of its class in `walrelay.errors`. `again`: the same was told lately.
    """

    cause: str
    attempt: int
    pause: float
    lasting: bool
    error: str = ""
    again: bool = False


class Backfilling(NamedTuple):
    """`rows` of the table are to be published; `already` were before, by a backfill that was interrupted."""

    rows: int
    already: int


class Backfilled(NamedTuple):
    """So many more rows of the table are durable."""

    rows: int


class CleanedUp(NamedTuple):
    """A pass of the leader's clean-up deleted so many rows, those of the `dropped` partitions too, and made partitions
    for the days `made`. It happens in another thread than the relay's.
    """

    rows: int
    dropped: Sequence[str]
    made: Sequence[str]
    seconds: float


class NotCleanedUp(NamedTuple):
    """The leader's clean-up could not do something, and tries again later. It happens in another thread as
    well.
    """

    why: str


class NotMarked(NamedTuple):
    """Published rows could not be marked; it is tried again, and not told again while the reason is the same. It
    happens in another thread as well.
    """

    why: str


class Stopping(NamedTuple):
    """A stop or a pause was asked for; `unsettled` messages are still to be settled, which may take `seconds`."""

    unsettled: int
    seconds: float


class Paused(NamedTuple):
    """Somebody wants the relay to pause: nothing is read, and the instance keeps the lead. `why`: who, the reason and
    how it ends. `cost`: the WAL that is retained by now. `since`: when the pause began (Unix time, by the server's
    clock); None: nobody knows.
    """

    slot: str
    why: str
    cost: str
    since: float | None = None


class PauseOver(NamedTuple):
    """A pause of `seconds` is over, and the slot is read again. `why`: what ended it."""

    why: str
    seconds: float


class LeftAtOnce(NamedTuple):
    """The process ends because a second signal came, whatever it does. It happens in another thread than the
    relay's.
    """


class Stopped(NamedTuple):
    """The relay stopped cleanly."""

    confirmed: LSN
    unsettled: int


class EndedFatally(NamedTuple):
    """The relay ended because of `error`; if no others run in the process, that ends as well."""

    error: Fatal
    others_running: int = 0


Happening = (
    StandingBy
    | TakingOver
    | GivingUp
    | Leads
    | Streaming
    | Relayed
    | Turned
    | Settled
    | Behind
    | WaitedForRoom
    | Acknowledged
    | WaitedForRegistry
    | Confirmed
    | Stalled
    | Resumed
    | Skipped
    | DeadLettered
    | Dropped
    | Noticed
    | Retrying
    | Backfilling
    | Backfilled
    | CleanedUp
    | NotCleanedUp
    | NotMarked
    | Stopping
    | Paused
    | PauseOver
    | LeftAtOnce
    | Stopped
    | EndedFatally
    | Listening
    | ProcessStarted
    | ProcessDied
    | ProcessLost
    | DatabaseFound
    | DatabaseGone
    | NotStarted
)
"""At most a few happen in a turn of the loop and, but for DeadLettered and Dropped, none for each message."""


class Observer(Protocol):
    """Logs, metrics, traces, a bar on a terminal."""

    def saw(self, happening: Happening) -> None:
        """Must return soon: the relay waits. An error of it may end the run, unless `Observers` stands between."""
        ...


class Observers:
    """Several as one, none of which can end a run: the others hear of the first error that one of them raises, and it
    goes on being told what happens.
    """

    def __init__(self, *observers: Observer) -> None:
        self._observers = observers
        self._failed = set[int]()

    def saw(self, happening: Happening) -> None:
        for number, observer in enumerate(self._observers):
            try:
                observer.saw(happening)
            except Exception as error:  # who only watches must not break what is watched
                if number not in self._failed:
                    self._failed.add(number)
                    self.saw(Noticed(f"{type(observer).__name__} failed: {type(error).__name__}: {error}"))


def notices(observer: Observer) -> Callable[[str], None]:
    """A callback that reports a text as Noticed."""
    return lambda text: observer.saw(Noticed(text))
