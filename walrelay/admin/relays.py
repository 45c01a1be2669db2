"""The relays of the settings file, as the admin API sees them: settings, wiring, connections, what was asked lately."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from time import monotonic, sleep
from typing import NamedTuple

from walrelay import compose
from walrelay.admin.pool import CatalogPool
from walrelay.admin.remembered import Remembered
from walrelay.config import Settings, load_databases, load_relays
from walrelay.config.admin import AdminSettings
from walrelay.control.asking import RecentEvents, RelayActivity, recent_events, relay_activity
from walrelay.errors import SettingsError
from walrelay.model import Finding
from walrelay.operations import doctor
from walrelay.operations.status import Status
from walrelay.postgres.wal_pace import WalPace
from walrelay.wiring import Wiring

_MOMENT = 1.0  # seconds for which a status is good
_IDLE_SLOT = 10.0  # seconds; the question about a slot that nobody reads keeps a relay from it for a second at most
_EXAMINED = 10.0  # seconds for which the doctor's findings are good: they connect to the broker
_PACED = 0.5  # seconds in which the rate of the WAL is measured, the first time
_SWEEP = 30.0  # seconds


class AdminRelay:
    """One relay. `name`: that of the file; the slot's where the file has none."""

    def __init__(self, name: str, arguments: str, settings: Settings, pool: CatalogPool, pace: WalPace) -> None:
        self.name, self.settings, self.catalog, self.pace = name, settings, pool.catalog, pace
        self.wiring: Wiring = compose.wiring(settings)
        self._arguments = arguments
        self.status = Remembered(self._status, lambda found: _MOMENT if found.active else _IDLE_SLOT)
        self.findings = Remembered(self._findings, lambda _: _EXAMINED)
        self.activity = Remembered(self._activity, lambda _: _MOMENT)
        self.recent_events = Remembered(self._recent_events, lambda _: _MOMENT)

    def _status(self) -> Status:
        with self.catalog() as catalog:
            return compose.status(catalog, self.wiring)

    def _activity(self) -> RelayActivity:
        with self.catalog() as catalog:
            return relay_activity(catalog, self.wiring.slot)

    def _recent_events(self) -> RecentEvents:
        with self.catalog() as catalog:
            return recent_events(catalog, self.wiring.slot)

    def _findings(self) -> list[Finding]:
        return [*doctor.examine(self.wiring, self._arguments)]


class FoundRelays(NamedTuple):
    """`left_out`: what is wrong with single databases that a query found."""

    relays: Mapping[str, AdminRelay]
    left_out: tuple[str, ...] = ()


class AdminRelays:
    """All relays of the file. Those that a query finds are looked for again and again."""

    def __init__(self, path: Path, admin: AdminSettings, arguments: Callable[[str], str]) -> None:
        """SettingsError if the file cannot be used. `arguments`: what names file and relay on a command line."""
        self._path, self._admin, self._arguments = path, admin, arguments
        databases = load_databases(path)
        every = float("inf") if databases is None else databases.look_interval
        self._pools: dict[str, CatalogPool] = {}
        self._paces: dict[str, WalPace] = {}
        self._lock, self._swept = Lock(), monotonic()
        self._known: dict[str, AdminRelay] = {}
        self.found = Remembered(self._find, lambda _: every)

    def close(self) -> None:
        """The connections that nobody uses just now."""
        for pool in self._all_pools():
            pool.close_idle(older_than=0.0)

    def sweep(self) -> None:
        """Closes connections that nobody has wanted for a while; called now and then."""
        with self._lock:
            if monotonic() - self._swept < _SWEEP:
                return
            self._swept = monotonic()
        for pool in self._all_pools():
            pool.close_idle()

    def _all_pools(self) -> Iterable[CatalogPool]:
        with self._lock:
            return [*self._pools.values()]

    def _find(self) -> FoundRelays:
        left_out: list[SettingsError] = []
        relays = {}
        for name, settings in load_relays(self._path, (), left_out).items():
            known = self._known.get(name)
            if known is None or known.settings != settings:
                known = self._made(name, settings)
            relays[name] = known
        self._known = relays
        self._forget_others({each.settings.source.dsn.get_secret_value() for each in relays.values()})
        return FoundRelays({each.name: each for each in relays.values()}, tuple(map(str, left_out)))

    def _forget_others(self, dsns: set[str]) -> None:
        """Databases that a query finds come and go."""
        with self._lock:
            gone = [self._pools.pop(dsn) for dsn in self._pools.keys() - dsns]
            for dsn in self._paces.keys() - dsns:
                del self._paces[dsn]
        for pool in gone:
            pool.close_idle(older_than=0.0)

    def _made(self, name: str, settings: Settings) -> AdminRelay:
        dsn = settings.source.dsn.get_secret_value()
        with self._lock:
            pool = self._pools.setdefault(dsn, CatalogPool(dsn, self._admin.connections, self._admin.statement_timeout))
            pace = self._paces.setdefault(dsn, WalPace(sleep, _PACED))
        return AdminRelay(name or settings.source.slot, self._arguments(name), settings, pool, pace)


@contextmanager
def serving(relays: AdminRelays) -> Iterator[AdminRelays]:
    """Inside, the relays can be asked; afterwards their connections are closed."""
    try:
        yield relays
    finally:
        relays.close()
