"""All that is known of the relays of a process, for whoever asks; the server is asked at most every few seconds."""

from collections.abc import Sequence
from math import inf
from threading import Lock
from time import monotonic

from walrelay.errors import WalrelayError
from walrelay.operations.figures import SlotFigures, figures
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.failures import translated
from walrelay.telemetry.instruments import RelayView
from walrelay.telemetry.numbers import RelayNumbers
from walrelay.wiring import Wiring

_FRESH = 5.0  # seconds
_PATIENCE = 2.0  # seconds; a scrape has ten as a rule


class Views:
    """Called by any thread: the view of each relay. One connection to each database is kept, and made when needed.

    A server that does not answer holds up those who ask for it, and nobody else: no relay, and no question about life.
    """

    def __init__(self) -> None:
        self._relays: dict[str, tuple[Wiring, RelayNumbers]] = {}
        self._catalogs: dict[str, Catalog] = {}
        self._figures: dict[tuple[str, str], SlotFigures] = {}
        self._moved: dict[tuple[str, str], tuple[str | None, float]] = {}  # to which position, and when
        self._up: set[str] = set()
        self._asked, self._asking, self._changing = -_FRESH, Lock(), Lock()

    def add(self, name: str, wiring: Wiring, numbers: RelayNumbers) -> None:
        """Another relay, or an old one again."""
        with self._changing:
            self._relays = self._relays | {name: (wiring, numbers)}

    def remove(self, name: str) -> None:
        with self._changing:
            self._relays = {other: each for other, each in self._relays.items() if other != name}

    def __call__(self) -> Sequence[RelayView]:
        with self._asking:
            if monotonic() - self._asked >= _FRESH:
                self._ask_all()
            return [self._asked_for(name, wiring, numbers) for name, (wiring, numbers) in self._relays.items()]

    def _asked_for(self, name: str, wiring: Wiring, numbers: RelayNumbers) -> RelayView:
        of = wiring.dsn, wiring.slot
        _, moved = self._moved.get(of, (None, inf))
        return RelayView(name, numbers, wiring.sink.kinds, self._figures.get(of), wiring.dsn in self._up, moved)

    def without_asking(self) -> list[RelayView]:
        """The views at once, without what the server says."""
        return [
            RelayView(name, numbers, wiring.sink.kinds, None, True) for name, (wiring, numbers) in self._relays.items()
        ]

    def close(self) -> None:
        with self._asking:
            for catalog in self._catalogs.values():
                catalog.close()
            self._catalogs.clear()

    def _ask_all(self) -> None:
        databases: dict[str, list[Wiring]] = {}
        for wiring, _ in self._relays.values():
            databases.setdefault(wiring.dsn, []).append(wiring)
        for dsn in self._catalogs.keys() - databases.keys():
            self._catalogs.pop(dsn).close()
        self._figures.clear()
        self._up.clear()
        for dsn, wirings in databases.items():
            self._ask(dsn, wirings)
        self._asked = monotonic()

    def _ask(self, dsn: str, wirings: Sequence[Wiring]) -> None:
        """Twice, where the connection of before is gone."""
        for _ in range(1 + (dsn in self._catalogs)):
            try:
                if dsn not in self._catalogs:
                    self._catalogs[dsn] = Catalog(dsn, patience=_PATIENCE)
                with translated():
                    found = figures(self._catalogs[dsn], wirings)
            except WalrelayError:
                if dsn in self._catalogs:
                    self._catalogs.pop(dsn).close()
            else:
                self._up.add(dsn)
                for slot, each in found.items():
                    self._note(dsn, slot, each)
                return

    def _note(self, dsn: str, slot: str, found: SlotFigures) -> None:
        self._figures[dsn, slot] = found
        position, _ = self._moved.get((dsn, slot), (None, inf))
        if not found.lag_bytes or found.confirmed != position:
            self._moved[dsn, slot] = found.confirmed, monotonic()
