"""The thread of a database: it listens for pauses of the process's relays there, and writes what they report."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from threading import Event, Lock, Thread
from time import monotonic
from types import TracebackType
from typing import Self

from walrelay.control.questions import QUESTIONS, Answers
from walrelay.control.relay import RelayControl
from walrelay.control.table import CHANNEL, pauses, relays_table_exists, write_report
from walrelay.errors import Retryable, WalrelayError
from walrelay.observe import Observer
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.failures import translated
from walrelay.postgres.notifications import Bell, Flooded, Notifications
from walrelay.supervise import Backoff
from walrelay.wiring import Wiring

_PATIENCE = 5.0  # seconds
_DEAF = 60.0  # seconds without listening after a flood of notifications
_WHILE_DEAF = 1.0  # seconds after which the table is read then
_READ_AGAIN = 5.0  # seconds after which the table is read without a notification: the connection may be a dead one
_WHILE_LOCKED, _AFTER_AN_ERROR = 5.0, 60.0  # seconds until a report is written again that could not be written
_TELL_AFTER = 10.0  # seconds without a connection; a server that restarts is back by then
_FAREWELL = 0.5  # seconds for the last reports when a relay or the process ends
_WRITTEN = 0.02  # seconds after which it is seen that one is written
_BACKOFF = Backoff(0.2, 30.0)


class DatabaseControl:
    """The relays of the process in one database. There is a connection for as long as one of them leads."""

    def __init__(self, dsn: str) -> None:
        self._dsn, self._bell, self._lock, self._ended = dsn, Bell(), Lock(), Event()
        self._relays: list[RelayControl] = []
        self._thread: Thread | None = None
        self._served = 0.0  # when the table was last read, by `monotonic`
        self._deaf_until = 0.0
        self._news, self._slots = True, frozenset[str]()  # the table is to be read; slots of the relays that lead here

    def add(self, relay: RelayControl) -> None:
        self._relays = [*self._relays, relay]

    def remove(self, relay: RelayControl) -> None:
        self._relays = [each for each in self._relays if each is not relay]
        self._bell.ring()

    def await_report(self, relay: RelayControl) -> None:
        """Waits for the last report of a relay of this database, if that takes no time."""
        until = monotonic() + _FAREWELL
        while relay in self._relays and self._thread is not None and relay.pending and monotonic() < until:
            self._bell.ring()
            if self._ended.wait(_WRITTEN):
                return  # the last reports of all relays are waited for together

    @property
    def has_relays(self) -> bool:
        return bool(self._relays)

    def attend(self, relay: RelayControl) -> None:
        """Something is to be read or written for the relay."""
        if self._thread is None and relay.leads:
            with self._lock:
                if self._thread is None and not self._ended.is_set():
                    self._thread = Thread(target=self._work, name="control", daemon=True)
                    with suppress(RuntimeError):  # no thread can be started now; another change tries again
                        self._thread.start()
        self._bell.ring()

    def end(self) -> None:
        """Without waiting for it; see `await_end`."""
        self._ended.set()
        self._bell.ring()

    def await_end(self, seconds: float) -> None:
        thread = self._thread
        if thread is not None and thread.is_alive():
            thread.join(seconds)

    def _concerned(self) -> Sequence[RelayControl]:
        """Those for which there is work, now or later."""
        ended = self._ended.is_set()
        return [each for each in self._relays if each.pending or (each.leads and not ended)]

    def _over(self) -> bool:
        with self._lock:
            if self._concerned():
                return False
            self._thread = None
            return True

    def _work(self) -> None:
        failures, since = 0, monotonic()
        while not self._over():
            begun = monotonic()
            try:
                with translated(), Catalog(self._dsn, patience=_PATIENCE) as catalog:
                    if not relays_table_exists(catalog):
                        self._leave_alone()
                        return
                    self._serve(catalog)
            except Flooded:
                self._deaf_until = monotonic() + _DEAF
                for each in self._concerned():
                    each.flooded()
            except Exception as error:  # whatever it is: no relay may end because of it
                now = monotonic()
                failures = 1 if now - begun > _PATIENCE else failures + 1
                since = max(since, self._served)
                passing = isinstance(error, Retryable) and now - since < _TELL_AFTER
                for each in self._concerned() if not passing else ():
                    each.unseen(_text(error))
                if self._ended.wait(_BACKOFF.pause(failures, None)):
                    return

    def _leave_alone(self) -> None:
        """Until a relay begins to lead again."""
        with self._lock:
            for each in self._relays:
                each.absent()
            self._thread = None

    def _serve(self, catalog: Catalog) -> None:
        """While one of the relays leads; and the last reports."""
        catalog.run("SET synchronous_commit = off")  # a report needs no disk, and must not wait for a standby
        answers, notifications, self._news = Answers(catalog), None, True

        def heard(channel: str, text: str) -> bool:
            if channel == QUESTIONS:
                return answers.hear(text)
            self._news |= text in self._slots
            return text in self._slots

        for each in self._relays:
            each.connected()
        while relays := self._concerned():
            answers.slots = self._slots = frozenset(each.slot for each in relays if each.leads)
            deaf = monotonic() < self._deaf_until
            if notifications is None and not deaf:
                notifications = Notifications(catalog, (CHANNEL, QUESTIONS), self._bell, heard)
                self._news = True
            again = self._served + (_WHILE_DEAF if deaf else _READ_AGAIN)
            if self._news or any(each.unread for each in relays) or monotonic() >= again:
                self._news = False
                self._read(catalog, [each for each in relays if each.leads])
            answers.write(relays, monotonic())
            waits = [self._write(catalog, each) for each in relays]
            waits += [answers.due(monotonic()), max(0.0, again - monotonic())]
            wait = min(wait for wait in waits if wait is not None)
            if notifications is None:
                self._bell.wait(wait)
            else:
                notifications.wait(wait)

    def _read(self, catalog: Catalog, relays: Sequence[RelayControl]) -> None:
        for each in relays:
            each.unread = False
        found = pauses(catalog, [each.slot for each in relays])
        self._served = monotonic()
        for each in relays:
            each.wish(found.get(each.slot))

    def _write(self, catalog: Catalog, relay: RelayControl) -> float | None:
        """In how many seconds the next report is due, if any is."""
        due = relay.due(monotonic())
        if due is None or (due > 0 and not self._ended.is_set() and not relay.leaves):
            return due
        report, number = relay.report()
        try:
            write_report(catalog, report)
        except WalrelayError as error:
            if not catalog.usable:
                raise
            relay.failed(_text(error), _WHILE_LOCKED if isinstance(error, Retryable) else _AFTER_AN_ERROR)
        else:
            relay.reported(number)
        return relay.due(monotonic())


def _text(error: Exception) -> str:
    if isinstance(error, WalrelayError):
        return f"{error} (hint: {error.hint})" if error.hint else str(error)
    return f"{type(error).__name__}: {error}"


class Controls:
    """The databases of a process. A context: at its end the last reports are written, if that takes no time."""

    def __init__(self) -> None:
        self._databases: dict[str, DatabaseControl] = {}
        self._lock = Lock()

    def add(self, name: str, wiring: Wiring, watchers: Iterable[Observer] = ()) -> RelayControl:
        """A relay of the process, by its name in the settings. It is told what happens, and so is its `activity`.
        `watchers`: its other observers.
        """
        with self._lock:
            database = self._databases.setdefault(wiring.dsn, DatabaseControl(wiring.dsn))
            relay = RelayControl(name, wiring, database.attend, watchers)
            database.add(relay)
        return relay

    def remove(self, relay: RelayControl) -> None:
        """Once the table says what it ended in: no later report will."""
        relay.leaves = True
        with self._lock:
            databases = [*self._databases.values()]
        for each in databases:
            each.await_report(relay)
        with self._lock:
            for each in databases:
                each.remove(relay)
            self._databases = {dsn: each for dsn, each in self._databases.items() if each.has_relays}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        until = monotonic() + _FAREWELL
        for database in self._databases.values():
            database.end()
        for database in self._databases.values():
            database.await_end(max(0.0, until - monotonic()))
