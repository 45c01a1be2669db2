"""Looks at all databases of the file now and then, on threads of its own: what the console shows of each relay, and
what that was in the last hours. However many look at the console, a database is asked once.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from math import inf
from threading import Condition, Thread
from time import monotonic, time
from typing import NamedTuple, Self

from walrelay.admin.history import SERIES, HistoryPart, RelayHistory
from walrelay.admin.relays import AdminRelay, AdminRelays
from walrelay.operations.overview import DatabaseLook, Judgement, RelayGlance, SeenRelay
from walrelay.postgres.dsn import address
from walrelay.unforeseen import explained

_WATCHED = 1.0  # seconds between two looks while somebody watches
_REMEMBERED = 10.0  # seconds for which somebody counts who asked once
_FRESH = 2.0  # seconds; who asks waits for another look where the last one is older
_PATIENCE = 4.0  # seconds for that
_AT_ONCE = 8  # databases


class WatchedRelay(NamedTuple):
    """A relay at the last look. `admin`: None where it is of another settings file."""

    database: str
    look: SeenRelay
    admin: AdminRelay | None

    @property
    def slot(self) -> str:
        return self.look.seen.slot


class DatabaseProblem(NamedTuple):
    """Why a database could not be looked at."""

    database: str
    detail: str
    hint: str


class Overview(NamedTuple):
    """All relays. `at`: Unix time of the oldest look that is in it."""

    at: float
    relays: Sequence[WatchedRelay]
    problems: Sequence[DatabaseProblem]


class _Database:
    """One database of the file, and its last look. Only one thread at a time looks."""

    def __init__(self, relays: Sequence[AdminRelay]) -> None:
        self.relays = relays
        self.address = address(relays[0].wiring.dsn)
        self.histories: dict[str, RelayHistory] = {}
        self.looking, self.begun_at = False, -inf
        self.at: float | None = None  # Unix time
        self.found: Sequence[WatchedRelay] = ()
        self.problem: DatabaseProblem | None = None
        self._looking = DatabaseLook(relays[0].pace)

    def look(self) -> None:
        try:
            self.found, self.problem = self._looked(), None
            slots = {each.slot for each in self.found}
            self.histories = {slot: known for slot, known in self.histories.items() if slot in slots}
        except Exception as error:  # it is told in its place, and the others are shown
            known = explained(error)
            self.problem = DatabaseProblem(self.address, str(known), known.hint)
            self.found = [_unknown(self.address, each, self.problem) for each in self.relays]
        self.at = time()
        for each in self.found:
            self.histories.setdefault(each.slot, RelayHistory()).add(self.at, _numbers(each.look))

    def _looked(self) -> list[WatchedRelay]:
        ours = {each.wiring.slot: each for each in self.relays}
        with self.relays[0].catalog() as catalog:
            found = self._looking.look(catalog, {slot: each.name for slot, each in ours.items()})
        return [WatchedRelay(self.address, each, ours.get(each.seen.slot)) for each in found]


def _numbers(look: SeenRelay) -> dict[str, float | None]:
    """As the history has them."""
    rates, latency = look.rates, look.latency
    return {
        **{name: getattr(look.seen, name) for name in SERIES if name in RelayGlance._fields},
        "published_per_second": rates.published if rates is not None else None,
        "bytes_per_second": rates.bytes if rates is not None else None,
        "in_flight": look.in_flight,
        "latency_p50": latency.p50 if latency is not None else None,
        "latency_p99": latency.p99 if latency is not None else None,
    }


def _unknown(database: str, relay: AdminRelay, problem: DatabaseProblem) -> WatchedRelay:
    nothing = None, None, None, None, None, None, None, None
    seen = RelayGlance(relay.name, relay.wiring.slot, "unknown", *nothing, False)
    return WatchedRelay(database, SeenRelay(seen, Judgement("critical", problem.detail, problem.hint)), relay)


class AdminWatch:
    """A context: inside, databases are looked at every `interval` seconds (0: only while somebody watches)."""

    def __init__(self, relays: AdminRelays, interval: float) -> None:
        self._relays, self._interval = relays, interval or inf
        self._databases: Mapping[str, _Database] = {}
        self._changed = Condition()
        self._asked_at, self._closed = -inf, False
        self._watchers: list[Callable[[], None]] = []
        self._workers = ThreadPoolExecutor(_AT_ONCE, "look")
        self._thread = Thread(target=self._work, name="watch", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()
        self._thread.join(_PATIENCE)
        self._workers.shutdown(wait=True, cancel_futures=True)

    def leave(self) -> None:
        """Whoever watches is told that it ends."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            watchers = [*self._watchers]
        for tell in watchers:
            tell()

    @property
    def closed(self) -> bool:
        return self._closed

    def overview(self) -> Overview:
        """As of a moment ago; a database that does not answer in time is shown as it was."""
        asked, until = time(), monotonic() + _PATIENCE
        with self._changed:
            self._asked_at = monotonic()
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._closed or self._is_fresh(asked - _FRESH), until - monotonic())
        return self.latest()

    def latest(self) -> Overview:
        """As it was looked at last."""
        databases = [*self._databases.values()]
        found: dict[tuple[str, str], WatchedRelay] = {}
        for each in (each for database in databases for each in database.found):
            where = each.database, each.slot
            if where not in found or each.admin is not None:  # a file may name one database in several ways
                found[where] = each
        at = [database.at for database in databases if database.at is not None]
        return Overview(
            min(at, default=time()), [*found.values()], [each.problem for each in databases if each.problem]
        )

    def history(self, relay: AdminRelay, seconds: float) -> HistoryPart:
        """What is known of the last seconds, in this process."""
        database = self._databases.get(relay.wiring.dsn)
        known = database.histories.get(relay.wiring.slot) if database is not None else None
        return (known or RelayHistory()).last(seconds, time())

    @contextmanager
    def watching(self, tell: Callable[[], None]) -> Iterator[None]:
        """Inside, databases are looked at often, and `tell` is called after each look, in another thread."""
        with self._changed:
            self._watchers.append(tell)
            self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._watchers.remove(tell)

    def _is_fresh(self, since: float) -> bool:
        return bool(self._databases) and all((each.at or 0.0) >= since for each in self._databases.values())

    def _work(self) -> None:
        while not self._closed:
            self._find()
            with self._changed:
                now = monotonic()
                watched = self._watchers or now - self._asked_at < _REMEMBERED
                pause = min(_WATCHED, self._interval) if watched else self._interval
                for each in self._databases.values():
                    if not each.looking and now >= each.begun_at + pause:
                        each.looking, each.begun_at = True, now
                        self._workers.submit(self._look, each)
                next_at = min((each.begun_at + pause for each in self._databases.values()), default=now + _WATCHED)
                self._changed.wait(None if next_at == inf else max(0.05, next_at - now))

    def _find(self) -> None:
        """The databases of the file; those that were known before keep what is known of them."""
        try:
            relays = self._relays.found().relays.values()
        except Exception:  # a query for databases that fails is told where relays are listed
            return
        by_dsn: dict[str, list[AdminRelay]] = {}
        for each in relays:
            by_dsn.setdefault(each.wiring.dsn, []).append(each)
        databases = {}
        for dsn, found in by_dsn.items():
            databases[dsn] = self._databases.get(dsn) or _Database(found)
            databases[dsn].relays = found
        self._databases = databases

    def _look(self, database: _Database) -> None:
        try:
            database.look()
        finally:
            with self._changed:
                database.looking = False
                watchers = [*self._watchers]
                self._changed.notify_all()
            for tell in watchers:
                tell()
