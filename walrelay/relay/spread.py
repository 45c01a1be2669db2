"""The leads of a process's relays, spread over the instances of the same file (decision 35).

A process with several relays looks four times a second who is there, on one connection to each database, and runs those
of its share. The others stand by without any connection of their own. Who leads is decided by the lock of the lead
alone: a relay that is begun here waits for it as ever.
"""

from collections.abc import Callable, Mapping
from secrets import randbits
from threading import Condition, Lock, Thread
from time import monotonic
from typing import Protocol, Self

from walrelay.errors import WalrelayError
from walrelay.observe import GivingUp, Noticed, Observer, StandingBy, TakingOver
from walrelay.postgres.candidates import Candidacy, Look
from walrelay.relay.shares import GRACE, Duty, rank, shares
from walrelay.supervise import Stop

_INTERVAL = 0.25  # seconds between two looks
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

    def __init__(self, name: str, slot: str, observer: Observer) -> None:
        self.name, self.slot, self.duty, self.observer = name, slot, Duty(), observer
        self._changed, self._closed, self._stands_by = Condition(), False, False
        self._turn: Stop | None = None
        self.willing = True  # until the relay ended in an error

    @property
    def running(self) -> bool:
        return self._turn is not None

    def run(self, relay: Callable[[Stop], None]) -> None:
        """Calls `relay` for each turn, which it ends when its stop is set; returns when the process stops."""
        try:
            while True:
                with self._changed:
                    self._changed.wait_for(lambda: self.running or self._closed)
                    turn = self._turn
                if self._closed or turn is None:
                    return
                relay(turn)
                with self._changed:
                    self._turn = None
        finally:
            self.willing = False

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
    """What the relays of a process know together: the number of the process, and the candidates of each relay."""

    def __init__(self) -> None:
        self.number, self.lock, self.candidates = randbits(31), Lock(), dict[str, frozenset[int]]()


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
        self._seats = {name: Seat(name, each.slot, observers[name]) for name, each in places.items()}
        databases: dict[str, list[Seat]] = {}
        for name, each in places.items():
            databases.setdefault(each.dsn, []).append(self._seats[name])
        self._stop, self._instance = stop, instance or Instance()
        self._me = self._instance.number
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

    def run(self, name: str, relay: Callable[[Stop], None]) -> None:
        """Runs that relay whenever this instance is to lead it, until `stop` is set; raises what ends the relay."""
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
                    for seat in seats:
                        seat.duty = Duty()
                    while not self._stop.is_set():
                        willing = [seat.slot for seat in seats if seat.willing]
                        self._decide(seats, candidacy.look([seat.slot for seat in seats], willing))
                        seen = True
                        self._stop.wait(_INTERVAL)
            except Exception as error:  # whatever it is: relays that could run must not wait for it
                if not seen:
                    _run_all(seats, error)
                    seen = True
            self._stop.wait(_RETRY)

    def _decide(self, seats: list[Seat], looks: Mapping[str, Look]) -> None:
        with self._instance.lock:
            known = self._instance.candidates
            known |= {seat.name: looks[seat.slot].candidates for seat in seats}
            owners, instances = shares(known), len(set().union(*known.values()))
        now = monotonic()
        for seat in seats:
            if not seat.willing:
                continue
            owner, look = owners.get(seat.name), looks[seat.slot]
            mine, my_rank = owner == self._me, rank(seat.name, self._me, owner, look.candidates)
            match seat.duty.due(look, now, running=seat.running, mine=mine, rank=my_rank):
                case "begin":
                    seat.begin(f"it is of this instance's share: {instances} instances are there")
                case "stand in":
                    seat.begin(f"nobody has led it for {GRACE * my_rank:g} s")
                case "give up":
                    seat.give_up(f"another instance, whose share it is, waits for it: {instances} are there")
                case _ if not seat.running:
                    seat.stand_by()


def _run_all(seats: list[Seat], error: Exception) -> None:
    """As if there were no other instance: the relays say what is wrong, and the locks decide who leads."""
    told = error if isinstance(error, WalrelayError) else f"{type(error).__name__}: {error}"
    seats[0].observer.saw(Noticed(f"which instances are there cannot be seen, so all relays are begun here: {told}"))
    for seat in seats:
        seat.begin("")
