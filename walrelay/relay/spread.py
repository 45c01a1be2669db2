"""The leads of a process's relays, spread over the instances of the same file (decision 35).

A process with several relays looks four times a second who is there, on one connection to each database, and runs those
of its share. The others stand by without any connection of their own. Who leads is decided by the lock of the lead
alone: a relay that is begun here waits for it as ever. It is begun when nobody leads it. Before that it is claimed, on
the connection that is there anyway: a server whose max_wal_senders are all in use has none for those that wait.
"""

from collections.abc import Callable, Mapping
from functools import partial
from secrets import randbits
from threading import Condition, Lock, Thread
from time import monotonic
from typing import Protocol, Self

from walrelay.errors import WalrelayError
from walrelay.observe import (
    GivingUp,
    Happening,
    Noticed,
    Observer,
    Observers,
    Paused,
    Retrying,
    StandingBy,
    Streaming,
    TakingOver,
)
from walrelay.postgres.candidates import Candidacy, Look
from walrelay.relay.shares import Duty, Upcoming, shares, steps
from walrelay.supervise import Stop

_INTERVAL = 0.25  # seconds between two looks
_SOON = 0.1  # while leads move
_RETRY = 1.0  # seconds before the next connection
_LEAVING = 2.0  # seconds for a server to answer before the process ends


class Place(Protocol):
    """Where a relay reads, as its wiring says."""

    @property
    def dsn(self) -> str: ...

    @property
    def slot(self) -> str: ...


class Seat:
    """One relay of the process. Its thread takes its turns here; another says when they begin and end."""

    def __init__(self, name: str, slot: str, observer: Observer, begun: Callable[[], None]) -> None:
        """`begun` is called when the relay streams, or when it takes longer until it does."""
        self.name, self.slot, self.observer, self._begun = name, slot, observer, begun
        self._changed, self._closed, self._stands_by = Condition(), False, False
        self._turn: Stop | None = None
        self.willing = True  # until the relay ended in an error
        self.claimed = False

    @property
    def running(self) -> bool:
        return self._turn is not None

    def saw(self, happening: Happening) -> None:
        if isinstance(happening, Streaming | StandingBy | Retrying | Paused):
            self._begun()

    def run(self, relay: Callable[[Stop, Observer], None]) -> None:
        """Calls `relay` for each turn, which it ends when its stop is set; returns when the process stops."""
        observer = Observers(self.observer, self)
        try:
            while True:
                with self._changed:
                    self._changed.wait_for(lambda: self.running or self._closed)
                    turn = self._turn
                if self._closed or turn is None:
                    return
                relay(turn, observer)
                self._begun()
                with self._changed:
                    self._turn = None
                    leaves = self._closed
                if not leaves:
                    self.observer.saw(StandingBy(self.slot))
        finally:
            self.willing = False
            self._begun()

    def begin(self, why: str) -> None:
        if self._stands_by:
            self.observer.saw(TakingOver(self.slot, why))
            self._stands_by = False
        with self._changed:
            self._turn = Stop()
            self._changed.notify_all()

    def stand_by(self) -> None:
        if not self._stands_by:
            self.observer.saw(StandingBy(self.slot))
            self._stands_by = True

    def give_up(self, why: str) -> None:
        with self._changed:
            turn = self._turn
        if turn is not None and not turn.is_set():
            self.observer.saw(GivingUp(self.slot, why))
            self._stands_by = True
            turn.set()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            if self._turn is not None:
                self._turn.set()
            self._changed.notify_all()


class Instance:
    """What the relays of a process know together: its number, the candidates of each, and which of them begin."""

    def __init__(self) -> None:
        self.number, self.lock, self.candidates = randbits(31), Lock(), dict[str, frozenset[int]]()
        self.upcoming = Upcoming()

    def begun(self, name: str) -> None:
        with self.lock:
            self.upcoming.done(name)


class Spread:
    """Relays of one process. A context: inside, other threads watch who is there, until `stop` is set."""

    def __init__(
        self,
        places: Mapping[str, Place],
        observers: Mapping[str, Observer],
        stop: Stop,
        instance: Instance | None = None,
    ) -> None:
        """`instance`: that of other Spreads in the process, whose relays are shared out together with these."""
        self._stop, self._instance = stop, instance or Instance()
        self._me = self._instance.number
        self._seats = {
            name: Seat(name, each.slot, observers[name], partial(self._instance.begun, name))
            for name, each in places.items()
        }
        databases: dict[str, list[Seat]] = {}
        for name, each in places.items():
            databases.setdefault(each.dsn, []).append(self._seats[name])
        watches = [Thread(target=self._watch, args=each, name="spread", daemon=True) for each in databases.items()]
        self._threads = [*watches, Thread(target=self._close, name="spread", daemon=True)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(_LEAVING)
        with self._instance.lock:
            for name in self._seats:
                self._instance.candidates.pop(name, None)
                self._instance.upcoming.done(name)

    def run(self, name: str, relay: Callable[[Stop, Observer], None]) -> None:
        """Runs that relay whenever this instance is to lead it, until `stop` is set; raises what ends the relay.
        `relay` gets the stop of its turn, and whom to tell what happens.
        """
        self._seats[name].run(relay)

    def _close(self) -> None:
        """The stop must not wait for a server that does not answer."""
        self._stop.wait()
        for seat in self._seats.values():
            seat.close()

    def _watch(self, dsn: str, seats: list[Seat]) -> None:
        """Without a connection nobody can begin to lead, so relays that stand by go on standing by."""
        seen = False
        while not self._stop.is_set():
            try:
                with Candidacy(dsn, self._me) as candidacy:
                    duties = dict[str, Duty]()
                    while not self._stop.is_set():
                        willing = [seat.slot for seat in seats if seat.willing]
                        claimed = [seat.slot for seat in seats if seat.claimed and seat.willing]
                        looks = candidacy.look([seat.slot for seat in seats], willing, claimed)
                        moving = self._decide(seats, looks, duties)
                        seen = True
                        self._stop.wait(_SOON if moving else _INTERVAL)
            except Exception as error:  # whatever it is: relays that could run must not wait for it
                if not seen:
                    _run_all(seats, error)
                    seen = True
            self._stop.wait(_RETRY)

    def _decide(self, seats: list[Seat], looks: Mapping[str, Look], duties: dict[str, Duty]) -> bool:
        """Whether leads move, as far as this instance has to do with it."""
        now, willing = monotonic(), {seat.name: seat for seat in seats if seat.willing}
        seen = {name: looks[seat.slot] for name, seat in willing.items()}
        running = {name for name, seat in willing.items() if seat.running}
        with self._instance.lock:
            known = self._instance.candidates
            known |= {seat.name: looks[seat.slot].candidates for seat in seats}
            owners, there = shares(known), f"{len(set().union(*known.values()))} instances are there"
            due = [*steps(duties, seen, owners, running, self._me, self._instance.upcoming, now)]
            moving = self._instance.upcoming.busy(now) > 0
        for seat in seats:
            seat.claimed = False
        for name, step in due:
            seat = willing[name]
            match step:
                case "begin":
                    seat.begin(f"it is of this instance's share: {there}")
                case "stand in":
                    seat.begin("nobody has led it for a while, and this instance is next")
                case "give up":
                    seat.give_up(f"another instance, whose share it is, waits for it: {there}")
                    moving = True
                case _ if not seat.running:
                    seat.claimed = step == "claim"
                    seat.stand_by()
        return moving


def _run_all(seats: list[Seat], error: Exception) -> None:
    """As if there were no other instance: the relays say what is wrong, and the locks decide who leads."""
    told = error if isinstance(error, WalrelayError) else f"{type(error).__name__}: {error}"
    seats[0].observer.saw(Noticed(f"which instances are there cannot be seen, so all relays are begun here: {told}"))
    for seat in seats:
        seat.begin("")
