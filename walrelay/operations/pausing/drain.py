"""A relay that publishes what was committed until now, and is paused then: before its broker goes away."""

from collections.abc import Iterator
from threading import Event
from time import monotonic
from typing import NamedTuple

from walrelay.control.table import Pause, PauseRequest, begin_pause, pauses
from walrelay.errors import Fatal
from walrelay.lsn import LSN, ZERO
from walrelay.operations.pausing.pause import existing_slot, is_led, refuse_missing
from walrelay.postgres.catalog import Catalog
from walrelay.wiring import Wiring

_LOOK = 0.1  # seconds between two looks at what is confirmed
_NUDGE = 1.0  # seconds after which an idle server is made to write some WAL


class DrainRequest(NamedTuple):
    """`patience`: seconds in which the relay has to confirm."""

    by: str
    reason: str = ""
    then_pause: bool = True
    patience: float = 300.0


class Drain:
    """Begun when it is made: what is committed after that may be published or not. `distance`: the bytes of WAL that
    the relay has to confirm, 1 at least.
    """

    def __init__(self, wiring: Wiring, catalog: Catalog, name: str, request: DrainRequest) -> None:
        """Fatal where the relay would not confirm anything."""
        self._slot, self._catalog, self._name, self._request = wiring.slot, catalog, name, request
        refuse_missing(catalog, f"drain {name}")
        self._refuse_standstill()
        self.target = catalog.current_lsn()
        self._from = self._confirmed()
        self.distance = max(1, self.target - self._from)
        self.pause: Pause | None = None

    def steps(self, stop: Event) -> Iterator[int]:
        """How many bytes were confirmed since the step before; all of them, unless it was stopped. Then it pauses."""
        done, nudged = 0, monotonic()
        deadline = nudged + self._request.patience
        while (confirmed := self._confirmed()) < self.target:
            if (more := min(confirmed - self._from, self.distance) - done) > 0:
                done += more
                yield more
            if stop.is_set():
                return
            now = monotonic()
            if now > deadline:
                raise self._too_late(confirmed)
            if now - nudged > _NUDGE:
                self._refuse_standstill()
                # The position asked for may be behind the header of a page that nothing was written to yet.
                self._catalog.rows("SELECT pg_current_xact_id()")
                nudged = now
            stop.wait(_LOOK)
        if self._request.then_pause:
            request = PauseRequest(self._request.by, self._request.reason)
            self.pause = begin_pause(self._catalog, self._slot, self._name, request, new=True)
            self.pause = self.pause or pauses(self._catalog, [self._slot]).get(self._slot)
        if self.distance > done:
            yield self.distance - done

    def _confirmed(self) -> LSN:
        return existing_slot(self._catalog, self._slot, self._name).confirmed_flush_lsn or ZERO

    def _refuse_standstill(self) -> None:
        existing_slot(self._catalog, self._slot, self._name)
        if (pause := pauses(self._catalog, [self._slot]).get(self._slot)) is not None:
            raise Fatal(
                f"relay {self._name!r} is paused {pause}, and confirms nothing",
                hint=f"`walrelay resume {self._name}` lets it go on; then drain it.",
            )
        if not is_led(self._catalog, self._slot):
            hint = "Start it: `walrelay run`."
            raise Fatal(f"no instance leads relay {self._name!r}: nothing is confirmed", hint=hint)

    def _too_late(self, confirmed: LSN) -> Fatal:
        return Fatal(
            f"relay {self._name!r} has confirmed up to {confirmed}, and not up to {self.target} after"
            f" {self._request.patience:g} s; it is not paused",
            hint="The broker may be away, or the relay is behind: `walrelay status` and its log. Then drain it again,"
            " or give it more time.",
        )
