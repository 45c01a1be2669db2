"""Looks at the relays of several databases: what the server knows of them, and what their leaders tell."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import Any, NamedTuple, Self

from walrelay.dead_letters.store import waiting_of
from walrelay.errors import Fatal
from walrelay.lsn import LSN
from walrelay.operations.activity import Rates, RelayActivity, activity, rates
from walrelay.operations.overview import Judgement, RelayGlance, glance, judged
from walrelay.postgres.catalog import Catalog

_AT_ONCE = 8  # databases
_PATIENCE = 1.0  # seconds for the leaders' answers
_COUNTED = 5.0  # seconds for which the number of dead letters is good


class SeenRelay(NamedTuple):
    """A relay at a look. `live` and `rates`: None where its leader does not tell."""

    seen: RelayGlance
    judgement: Judgement
    live: RelayActivity | None
    rates: Rates | None

    def as_json(self) -> dict[str, Any]:
        live, rated = self.live, self.rates
        return {
            **self.seen.as_json(),
            "level": self.judgement.level,
            "why": self.judgement.why,
            "todo": self.judgement.todo,
            "published_per_second": rated and rated.published,
            "bytes_per_second": rated and rated.bytes,
            "in_flight": live and live.in_flight,
            "latency": live and live.latency and live.latency._asdict(),
            "stalled": live and live.stalled and live.stalled._asdict(),
        }


class TopLook(NamedTuple):
    """All relays; and which databases could not be asked, by the names of their relays."""

    relays: Sequence[SeenRelay]
    errors: Sequence[tuple[str, Exception]]


class _Database:
    """One database, over one connection for as long as that lives."""

    def __init__(self, dsn: str, names: Mapping[str, str], *, only_named: bool) -> None:
        self._dsn, self.names, self._only_named = dsn, dict(names), only_named
        self._catalog: Catalog | None = None
        self._before: Mapping[str, RelayActivity] = {}
        self._letters: Mapping[str, int] | None = None
        self._counted_at, self._ends = -_COUNTED, dict[str, tuple[float, LSN]]()

    def look(self) -> list[SeenRelay]:
        try:
            if self._catalog is None:
                self._catalog = Catalog(self._dsn)
            return self._look(self._catalog)
        except Exception:
            self.close()
            raise

    def _look(self, catalog: Catalog) -> list[SeenRelay]:
        found = glance(catalog, self.names, without_table=True, letters=self._count)
        if self._only_named:
            found = [each for each in found if each.slot in self.names]
        before, self._before = self._before, self._ask(catalog, [each.slot for each in found])
        return [self._seen(each, before.get(each.slot), self._before.get(each.slot)) for each in found]

    def _ask(self, catalog: Catalog, slots: Sequence[str]) -> Mapping[str, RelayActivity]:
        """An earlier installation, or a role that may not read the table, has no live numbers: all else is shown."""
        try:
            return activity(catalog, slots, _PATIENCE)
        except Fatal:
            return {}

    def _count(self, catalog: Catalog, slots: Sequence[str]) -> Mapping[str, int] | None:
        if monotonic() - self._counted_at >= _COUNTED:
            self._letters, self._counted_at = waiting_of(catalog, slots), monotonic()
        return self._letters

    def _seen(self, seen: RelayGlance, before: RelayActivity | None, now: RelayActivity | None) -> SeenRelay:
        stalled = now.stalled.why if now is not None and now.stalled is not None else ""
        return SeenRelay(seen, judged(seen, self._safe_seconds(seen), stalled), now, rates(before, now))

    def _safe_seconds(self, seen: RelayGlance) -> float | None:
        """By the rate of WAL since the first look."""
        if seen.position is None or seen.lag_bytes is None or seen.safe_bytes is None:
            return None
        now, end = monotonic(), LSN(LSN.parse(seen.position) + seen.lag_bytes)
        since, begin = self._ends.setdefault(seen.slot, (now, end))
        return None if end <= begin else seen.safe_bytes / ((end - begin) / (now - since))

    def close(self) -> None:
        if self._catalog is not None:
            self._catalog.close()
        self._catalog, self._before = None, {}


class Looking:
    """A context: its connections end with it."""

    def __init__(self, databases: Mapping[str, Mapping[str, str]], *, only_named: bool) -> None:
        """`databases`: names of relays by slot, by DSN."""
        self._databases = [_Database(dsn, names, only_named=only_named) for dsn, names in databases.items()]
        self._workers = ThreadPoolExecutor(_AT_ONCE, "look")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._workers.shutdown(wait=True, cancel_futures=True)
        for each in self._databases:
            each.close()

    def look(self) -> TopLook:
        """One database keeps no other from being shown."""
        looks = [(each, self._workers.submit(each.look)) for each in self._databases]
        relays, errors = list[SeenRelay](), list[tuple[str, Exception]]()
        for database, look in looks:
            try:
                relays += look.result()
            except Exception as error:
                errors.append((", ".join(database.names.values()), error))
        return TopLook(relays, errors)
