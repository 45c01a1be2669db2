"""What a database says of its slots, asked from a thread of its own: one that does not answer holds up nobody else."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from math import inf
from threading import Condition, Thread
from time import monotonic

from walrelay.errors import WalrelayError
from walrelay.operations.figures import SlotFigures, figures
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.failures import translated
from walrelay.wiring import Wiring

_FRESH, _OLD = 5.0, 10.0  # seconds
_PATIENCE = 2.0  # seconds for one statement
_LOCKS = "SELECT set_config('lock_timeout', '500ms', false)"  # an ALTER TABLE may hold the outbox for long
_LEAVING = 0.5  # seconds


class DatabaseAsker:
    """Keeps one connection, which it makes when it is asked for the first time."""

    def __init__(self, dsn: str) -> None:
        self._dsn, self._changed = dsn, Condition()
        self._catalog: Catalog | None = None
        self._thread: Thread | None = None
        self._wirings: Sequence[Wiring] | None = None  # what is to be asked for
        self._ended_at, self._closed = -inf, False
        self.found: Mapping[str, SlotFigures] | None = None
        """By slot; None: it gave no answer when it was asked last, or has given none yet."""
        self.answered_at = monotonic()
        self._moved: dict[str, tuple[str | None, float]] = {}  # to which position, and when

    def ask(self, wirings: Sequence[Wiring]) -> None:
        """Begins to, unless the last answer is fresh, or one is awaited."""
        with self._changed:
            if self._wirings is None and not self._closed and monotonic() - self._ended_at >= _FRESH:
                self._wirings = wirings
                if self._thread is None:
                    self._thread = Thread(target=self._keep_asking, name="figures", daemon=True)
                    self._thread.start()
                self._changed.notify_all()

    def await_answer(self, until: float) -> None:
        """Until there is one, by `monotonic`. Without one, that of a moment ago still holds."""
        with self._changed:
            there = self._changed.wait_for(lambda: self._wirings is None, max(0.0, until - monotonic()))
            if not there and monotonic() - self.answered_at > _OLD:
                self.found = None

    def unmoved_since(self, slot: str) -> float:
        """When the slot was last seen to move, or to have nothing to read."""
        return self._moved.get(slot, (None, inf))[1]

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(_LEAVING)

    def _keep_asking(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._wirings is not None or self._closed)
                wirings = self._wirings
                if self._closed or wirings is None:
                    break
            found = None
            with suppress(Exception):  # whatever it is, the next one who asks wants an answer as well
                found = self._ask(wirings)
            with self._changed:
                self.found, self._wirings, self._ended_at = found, None, monotonic()
                if found is not None:
                    self.answered_at = self._ended_at
                self._changed.notify_all()
        self._let_go()

    def _ask(self, wirings: Sequence[Wiring]) -> Mapping[str, SlotFigures] | None:
        """Twice, where the connection of before is gone."""
        for _ in range(1 + (self._catalog is not None)):
            try:
                if self._catalog is None:
                    self._catalog = Catalog(self._dsn, patience=_PATIENCE)
                    self._catalog.rows(_LOCKS)
                with translated():
                    found = figures(self._catalog, wirings)
            except WalrelayError:
                self._let_go()
            else:
                self._note(wirings, found)
                return found
        return None

    def _let_go(self) -> None:
        if self._catalog is not None:
            self._catalog.close()
            self._catalog = None

    def _note(self, wirings: Sequence[Wiring], found: Mapping[str, SlotFigures]) -> None:
        """A slot moves when the relay confirms, which it may do seldom."""
        self._moved = {slot: moved for slot, moved in self._moved.items() if slot in found}
        intervals = {each.slot: each.streaming.timing.confirm_interval for each in wirings}
        for slot, each in found.items():
            position, _ = self._moved.get(slot, (None, inf))
            if not each.lag_bytes or each.confirmed != position:
                self._moved[slot] = each.confirmed, monotonic() + intervals[slot]
