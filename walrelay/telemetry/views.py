"""All that is known of the relays of a process, for whoever asks; the server is asked at most every few seconds."""

from collections.abc import Sequence
from functools import cache
from threading import Lock
from time import monotonic

from walrelay.observe.numbers import RelayNumbers
from walrelay.telemetry.asking import DatabaseAsker
from walrelay.telemetry.instruments import RelayView
from walrelay.wiring import Wiring

_PATIENCE = 3.0  # seconds; a scrape has ten as a rule


class Views:
    """Called by any thread: the view of each relay. A server that does not answer holds up whoever asks for a moment,
    and no relay, and no question about life.
    """

    def __init__(self) -> None:
        self._relays: dict[str, tuple[Wiring, RelayNumbers]] = {}
        self._askers: dict[str, DatabaseAsker] = {}
        self._changing, self._closed = Lock(), False

    def add(self, name: str, wiring: Wiring, numbers: RelayNumbers) -> RelayNumbers:
        """Another relay, or an old one again, which goes on with the numbers that it had: they are returned."""
        with self._changing:
            before = self._relays.get(name)
            if before is not None and before[1].slot == numbers.slot:
                numbers = before[1]
            self._relays = self._relays | {name: (wiring, numbers)}
        return numbers

    def remove(self, name: str) -> None:
        with self._changing:
            self._relays = {other: each for other, each in self._relays.items() if other != name}

    def __call__(self, patience: float = _PATIENCE) -> Sequence[RelayView]:
        """`patience`: how many seconds to wait for servers."""
        until = monotonic() + patience
        relays, askers = self._ask()
        for asker in askers.values():
            asker.await_answer(until)
        return [self._view(name, wiring, numbers, askers[wiring.dsn]) for name, (wiring, numbers) in relays.items()]

    def _view(self, name: str, wiring: Wiring, numbers: RelayNumbers, asker: DatabaseAsker) -> RelayView:
        found = asker.found
        return RelayView(
            name,
            numbers,
            wiring.sink.kinds,
            None if found is None else found.get(wiring.slot),
            found is not None,
            asker.unmoved_since(wiring.slot),
            asker.answered_at,
            cache(wiring.sink.client_numbers),
        )

    def without_asking(self) -> list[RelayView]:
        """The views at once, without what the server says."""
        return [
            RelayView(name, numbers, wiring.sink.kinds, None, True) for name, (wiring, numbers) in self._relays.items()
        ]

    def close(self) -> None:
        """Waits for no server."""
        with self._changing:
            self._closed, askers, self._askers = True, [*self._askers.values()], {}
        for asker in askers:
            asker.close()

    def _ask(self) -> tuple[dict[str, tuple[Wiring, RelayNumbers]], dict[str, DatabaseAsker]]:
        with self._changing:
            relays, databases = self._relays, dict[str, list[Wiring]]()
            for wiring, _ in relays.values():
                databases.setdefault(wiring.dsn, []).append(wiring)
            gone = [self._askers.pop(dsn) for dsn in self._askers.keys() - databases.keys()]
            for dsn, wirings in databases.items():
                asker = self._askers.setdefault(dsn, DatabaseAsker(dsn))
                if not self._closed:
                    asker.ask(wirings)
            askers = {**self._askers}
        for each in gone:
            each.close()
        return relays, askers
