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

from walrelay.admin.history import HistoryPart, RelayHistory
from walrelay.admin.relays import AdminRelay, AdminRelays
from walrelay.dead_letters.store import waiting_of
from walrelay.errors import Fatal
from walrelay.operations.activity import RelayActivity, activity
from walrelay.operations.overview import Judgement, RelayGlance, glance, judged
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.dsn import address
from walrelay.unforeseen import explained

_WATCHED = 1.0  # seconds between two looks while somebody watches
_REMEMBERED = 10.0  # seconds for which somebody counts who asked once
_FRESH = 2.0  # seconds; who asks waits for another look where the last one is older
_PATIENCE = 4.0  # seconds for that
_AT_ONCE = 8  # databases
_ANSWER, _UNANSWERED = 1.0, 10.0  # seconds for leaders to answer, and until one is asked again that did not
_COUNTED = 5.0  # seconds for which the number of dead letters is good


class LiveNumbers(NamedTuple):
    """What the leader's process tells, and what that is a second; None: nobody tells it. `stalled`: what it
    waits for.
    """

    published_per_second: float | None = None
    bytes_per_second: float | None = None
    in_flight: int | None = None
    latency_p50: float | None = None
    latency_p99: float | None = None
    stalled: str = ""


class WatchedRelay(NamedTuple):
    """A relay at the last look. `admin`: None where it is of another settings file. `safe_seconds`: until its slot is
    lost at the present rate of WAL; None: it is not.
    """

    database: str
    seen: RelayGlance
    judgement: Judgement
    live: LiveNumbers
    safe_seconds: float | None
    admin: AdminRelay | None


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
        self._before: Mapping[str, RelayActivity] = {}
        self._live: dict[str, LiveNumbers] = {}
        self._silent_until: dict[str, float] = {}
        self._letters: Mapping[str, int] | None = None
        self._counted_at, self._counted_of = -inf, frozenset[str]()

    def look(self) -> None:
        try:
            self.found, self.problem = self._look(), None
        except Exception as error:  # it is told in its place, and the others are shown
            known = explained(error)
            self.problem = DatabaseProblem(self.address, str(known), known.hint)
            self.found = [_unknown(self.address, each, self.problem) for each in self.relays]
        self.at = time()
        for each in self.found:
            history = self.histories.setdefault(each.seen.slot, RelayHistory())
            history.add(self.at, {**each.seen._asdict(), **each.live._asdict()})

    def _look(self) -> list[WatchedRelay]:
        ours = {each.wiring.slot: each for each in self.relays}
        with self.relays[0].catalog() as catalog:
            self.relays[0].pace.look(catalog)
            names = {slot: each.name for slot, each in ours.items()}
            seen = glance(catalog, names, without_table=True, letters=self._count_letters)
            self._ask_leaders(catalog, [each.slot for each in seen if each.instance is not None])
        nobody = LiveNumbers()
        return [self._watched(each, self._live.get(each.slot, nobody), ours.get(each.slot)) for each in seen]

    def _ask_leaders(self, catalog: Catalog, slots: Sequence[str]) -> None:
        """One that gives no answer is of an earlier version, or frozen; it is not waited for again soon."""
        now = monotonic()
        asked = [slot for slot in slots if self._silent_until.get(slot, -inf) <= now]
        try:
            answers = activity(catalog, asked, _ANSWER) if asked else {}
        except Fatal:  # there is no table for answers
            answers = {}
        self._silent_until = {slot: until for slot, until in self._silent_until.items() if until > now}
        self._silent_until |= {slot: now + _UNANSWERED for slot in asked if slot not in answers}
        self._live = {slot: self._numbers(each) for slot, each in answers.items()}
        self._before = answers

    def _numbers(self, now: RelayActivity) -> LiveNumbers:
        before = self._before.get(now.slot)
        latency, why = now.latency, now.stalled.why if now.stalled is not None else ""
        p50, p99 = (None, None) if latency is None else (latency.p50, latency.p99)
        if before is None or (before.instance, before.since) != (now.instance, now.since):
            return LiveNumbers(None, None, now.in_flight, p50, p99, why)
        if now.at <= before.at:  # an answer that is shared with somebody else who asked
            return self._live[now.slot]
        seconds = now.at - before.at
        events, size = now.published - before.published, now.published_bytes - before.published_bytes
        return LiveNumbers(events / seconds, size / seconds, now.in_flight, p50, p99, why)

    def _count_letters(self, catalog: Catalog, slots: Sequence[str]) -> Mapping[str, int] | None:
        """Not at each look: to count 100,000 takes a tenth of a second."""
        now = monotonic()
        if now - self._counted_at >= _COUNTED or not self._counted_of.issuperset(slots):
            self._letters, self._counted_at, self._counted_of = waiting_of(catalog, slots), now, frozenset(slots)
        return self._letters

    def _watched(self, seen: RelayGlance, live: LiveNumbers, admin: AdminRelay | None) -> WatchedRelay:
        per_minute = self.relays[0].pace.known_per_minute()
        safe = None if seen.safe_bytes is None or not per_minute else seen.safe_bytes / per_minute * 60
        return WatchedRelay(self.address, seen, judged(seen, safe, live.stalled), live, safe, admin)


def _unknown(database: str, relay: AdminRelay, problem: DatabaseProblem) -> WatchedRelay:
    nothing = None, None, None, None, None, None, None, None
    seen = RelayGlance(relay.name, relay.wiring.slot, "unknown", *nothing, False)
    return WatchedRelay(database, seen, Judgement("critical", problem.detail, problem.hint), LiveNumbers(), None, relay)


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
            where = each.database, each.seen.slot
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
