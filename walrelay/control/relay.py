"""One relay of the process, between its own thread, which tells what happens and asks whether to pause, and the thread
of its database, which writes the one and reads the other.
"""

import os
import socket
from collections.abc import Callable, Iterable
from math import inf
from threading import Lock
from time import monotonic, time
from uuid import uuid4

from walrelay.control.activity import ActivityObserver
from walrelay.control.table import Pause, RelayReport, relays_table_exists, write_report
from walrelay.lsn import LSN
from walrelay.observe import (
    Acknowledged,
    Behind,
    Confirmed,
    EndedFatally,
    Happening,
    Noticed,
    Observer,
    Observers,
    Paused,
    Relayed,
    Resumed,
    Retrying,
    Stalled,
    Stopped,
    Streaming,
    Turned,
)
from walrelay.observe.processes import NotStarted
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.notifications import Bell
from walrelay.wiring import Wiring

_MOVING, _CHANGING = 10.0, 1.0  # seconds between two reports: while events flow, and while the state changes


class RelayControl:
    """An observer of the relay, for as long as the process has it. The relay's thread never waits here."""

    def __init__(
        self,
        name: str,
        wiring: Wiring,
        attend: Callable[["RelayControl"], None],
        watchers: Iterable[Observer] = (),
    ) -> None:
        """`name`: empty if the relay has none. `attend` wakes the thread of the database. `watchers`: the relay's other
        observers.
        """
        self.slot, self.name, self._attend = wiring.slot, name or wiring.slot, attend
        self._publication = wiring.publication
        self.instance = f"{socket.gethostname()}:{os.getpid()}"
        self.activity = ActivityObserver(wiring, self.instance, watchers)  # another observer, for whoever asks
        self.observer: Observer = Observers()  # whom to tell what goes wrong here
        self.pause: Pause | None = None
        self.ends_at = inf  # by `monotonic`: when the pause is over
        self.asks, self.news = Bell(), Bell()  # a pause is wanted; something changed
        self.leads = False
        self.lead_name = ""  # tells this lead from every other
        self.leaves = False  # the process is about to have it no more
        self.unread = False  # the table was not read since the relay began to lead
        self._lock = Lock()
        self._over: tuple[object, ...] = ()  # the terms of the pause that ended here
        self._state, self._position = "", LSN(0)
        self._published = False  # since the position was confirmed last
        self._since: int | None = None
        self._error, self._error_at, self._errors = "", 0.0, 0
        self._stalled = False
        self._changes = self._urgent = self._reported = 0  # so many changes; the last urgent one; those in the table
        self._claims = False  # it led when it changed
        self._written_at = self._not_before = -inf
        self._told, self._unanswered = "", ""

    def lead(self) -> None:
        if self._state in ("stopped", "failed"):  # what an earlier lead of this process ended in is over
            self._state = "starting"
        self._position = LSN(0)  # another instance may have led meanwhile and got further
        self.lead_name = uuid4().hex  # after the state: no report has that of the earlier one under this name
        self.leads = self.unread = True
        self._attend(self)

    def leave(self, error: str = "") -> None:
        """The relay does not lead any more, because of an error or by choice."""
        if error:
            self._trouble(error)
            self._enter("failed")
        self.leads = False

    def wish(self, pause: Pause | None) -> None:
        """What the table says."""
        with self._lock:
            if pause is not None and pause.terms == self._over:
                pause = None  # it ended here, although that could not be written
            self.pause = pause
            self.ends_at = inf if pause is None or pause.left is None else monotonic() + pause.left
            if pause is None:
                self.asks.silence()
            else:
                self.asks.ring()
            self.news.ring()

    def end_pause(self, pause: Pause) -> None:
        """That pause is over, whatever the table says; one on other terms is obeyed."""
        self._over = pause.terms
        self.wish(None)

    def saw(self, happening: Happening) -> None:
        kind = type(happening)
        if kind is Relayed or kind is Turned:  # these happen all the time
            return
        match happening:
            case Acknowledged():
                self._published = True
            case Confirmed(lsn):
                self._position = lsn
                if self._published:  # not by idle progress, which a report itself brings about
                    self._published = False
                    self._note(urgent=False)
            case Behind(since):
                self._since = since
                self._note(urgent=False)
            case Streaming(_, start):
                self._position = start
                self._enter("waiting" if self._stalled else "streaming")
            case Stalled(seconds, _, why, away):
                self._stall(why or "nothing was acknowledged", time() - max(seconds, away))
            case Resumed():
                self._stalled = False
                if self._state == "waiting":
                    self._enter("streaming")
            case Paused():
                self._enter("paused")
            case Retrying(cause) | NotStarted(cause):
                self._trouble(cause)
                self._enter("retrying")
            case EndedFatally(error):
                self._trouble(str(error))
                self._enter("failed")
            case Stopped(confirmed):
                if self._position:  # a lead that was paused all the time does not know how far the one before it got
                    self._position = max(self._position, confirmed)
                self._enter("stopped")

    def _trouble(self, text: str) -> None:
        self._errors += 1
        if text != self._error:
            self._error, self._error_at = text, time()

    def _stall(self, why: str, since: float) -> None:
        self._errors += not self._stalled
        self._stalled, self._error_at = True, since
        if why != self._error:
            self._error = why
            self._note(urgent=False)
        if self._state == "streaming":
            self._enter("waiting")

    def _enter(self, state: str) -> None:
        if state not in ("streaming", "waiting", "retrying"):
            self._since, self._stalled = None, False
        self._claims |= self.leads
        if state != self._state:
            self._state = state
            self._note(urgent=True)

    def _note(self, *, urgent: bool) -> None:
        wakes = self._changes == self._reported or (urgent and not self.pending)
        self._changes += 1
        if urgent:
            self._urgent = self._changes
        if wakes:
            self._attend(self)

    def report_stop(self, catalog: Catalog, lsn: LSN) -> None:
        """Writes the last report at once, in the relay's thread: it confirms once more behind it."""
        if relays_table_exists(catalog):
            self._since, self._state, self._position = None, "stopped", lsn
            report, number = self.report()
            write_report(catalog, report)
            self.reported(number)

    @property
    def pending(self) -> bool:
        """Whether a change of its state is to be written, even if it does not lead any more."""
        return self._urgent > self._reported

    def connected(self) -> None:
        """The thread of the database has a new connection: the table may be that of another server, and may lack what
        was written last.
        """
        self._not_before = -inf
        if self.leads and self._state:
            self._changes += 1
            self._urgent = self._changes

    def due(self, now: float) -> float | None:
        """In how many seconds a report is to be written; None: there is nothing new."""
        grows = self._since is not None and self.leads  # the lag
        if self._changes == self._reported and not grows:
            return None
        soonest = self._written_at + (_CHANGING if self.pending else _MOVING)
        return max(0.0, max(soonest, self._not_before) - now)

    def report(self) -> tuple[RelayReport, int]:
        """Report to be written now, and the number for `reported`. It stays due until that is called."""
        number, leads, lead = self._changes, self.leads, self.lead_name
        position = self._position or None
        error = self._error[:2000].replace("\0", "")
        told = self._state, position, self._since, error, self._error_at, self._errors
        whose = self.slot, self.name, self.instance, lead, leads, leads or self._claims
        return RelayReport(*whose, *told, self._publication), number

    def reported(self, number: int) -> None:
        """The report of that number is in the table."""
        self._written_at, self._reported = monotonic(), number
        if self._changes == number:
            self._claims = False

    def failed(self, why: str, seconds: float) -> None:
        """The report could not be written, and is written again after so many seconds."""
        self._not_before = monotonic() + seconds
        self.unseen(why)

    def unseen(self, why: str) -> None:
        """The state of the relay and a pause may not be seen; told once as long as the reason is the same."""
        if why != self._told:
            self._told = why
            self.observer.saw(Noticed(f"walrelay.relays: {why}; the state of the relay and a pause may not be seen"))

    def flooded(self) -> None:
        """Nothing is listened to for a while."""
        text = (
            "more than 20,000 notifications a second come on channels of walrelay: for a minute the table"
            " walrelay.relays is read once a second instead, and live numbers cannot be asked for. Who sends them:"
            " SELECT pid, usename, application_name, client_addr FROM pg_stat_activity WHERE query ILIKE '%notify%'"
        )
        self.observer.saw(Noticed(text))

    def cannot_answer(self, why: str) -> None:
        """Whoever asks gets no answer; told once as long as the reason is the same."""
        if why != self._unanswered:
            self._unanswered = why
            text = f"walrelay.activity: {why}; the relay goes on, and its events and live numbers may not be seen"
            self.observer.saw(Noticed(text))

    def absent(self) -> None:
        """There is no table."""
        self._reported = self._changes
