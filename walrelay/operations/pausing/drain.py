"""A relay that publishes what was committed until now, and is paused then: before its broker goes away."""

from collections.abc import Iterator
from threading import Event
from time import monotonic
from typing import NamedTuple

from walrelay.control.table import Pause, PauseRequest, begin_pause, pauses
from walrelay.errors import Disconnected, Fatal
from walrelay.lsn import LSN, ZERO
from walrelay.operations.pausing.pause import (
    Asking,
    await_obedience,
    existing_slot,
    refuse_leaderless,
    refuse_missing,
)
from walrelay.postgres.catalog import Catalog
from walrelay.wiring import RelayContact

_LOOK = 0.1  # seconds between two looks at what is confirmed
_LEADERLESS = 30.0  # seconds for which nothing may lead the relay
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

    def __init__(self, contact: RelayContact, catalog: Catalog, name: str, request: DrainRequest) -> None:
        """Fatal where the relay would not confirm anything."""
        self._slot, self._name, self._request = contact.slot, name, request
        self._ask = Asking(catalog, contact.dsn)
        refuse_missing(catalog, f"drain {name}")
        existing_slot(catalog, self._slot, name)
        self._led_at = monotonic()
        self._refuse_standstill(begins=True)
        self.target = catalog.current_lsn()
        self._from = self._confirmed()
        self.distance = max(1, self.target - self._from)
        self.pause: Pause | None = None
        self.disobeyed = ""  # why it is not certain that the relay is paused

    def steps(self, stop: Event) -> Iterator[int]:
        """How many bytes were confirmed since the step before; all of them, unless it was stopped. Then it pauses. A
        connection that is lost meanwhile is made again.
        """
        try:
            yield from self._steps(stop)
        finally:
            self._ask.close()

    def _steps(self, stop: Event) -> Iterator[int]:
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
                self._ask(lambda catalog: catalog.rows("SELECT pg_current_xact_id()"))
                nudged = now
            stop.wait(_LOOK)
        if self._request.then_pause:
            request = PauseRequest(self._request.by, self._request.reason)
            self.pause = self._ask(lambda catalog: begin_pause(catalog, self._slot, self._name, request, new=True))
            self.pause = self.pause or self._ask(lambda catalog: pauses(catalog, [self._slot])).get(self._slot)
            try:
                self.disobeyed = await_obedience(self._ask, self._slot, self._name, stop)
            except Disconnected as lost:
                self.disobeyed = f"the pause is asked for, and whether the leader obeys cannot be seen: {lost}"
        if self.distance > done:
            yield self.distance - done

    def _confirmed(self) -> LSN:
        slot = self._ask(lambda catalog: existing_slot(catalog, self._slot, self._name))
        return slot.confirmed_flush_lsn or ZERO

    def _refuse_standstill(self, *, begins: bool = False) -> None:
        """A relay that loses its lead for a while, as when the server restarts, is waited for."""
        if (pause := self._ask(lambda catalog: pauses(catalog, [self._slot])).get(self._slot)) is not None:
            raise Fatal(
                f"relay {self._name!r} is paused {pause}, and confirms nothing",
                hint=f"`walrelay resume {self._name}` lets it go on; then drain it.",
            )
        try:
            self._ask(
                lambda catalog: refuse_leaderless(catalog, self._slot, self._name, "nothing is confirmed", "drain")
            )
            self._led_at = monotonic()
        except Fatal:
            if begins or monotonic() - self._led_at > _LEADERLESS:
                raise

    def _too_late(self, confirmed: LSN) -> Fatal:
        return Fatal(
            f"relay {self._name!r} has confirmed up to {confirmed}, and not up to {self.target} after"
            f" {self._request.patience:g} s; it is not paused",
            hint="The broker may be away, or the relay is behind: `walrelay status` and its log. Then drain it again,"
            " or give it more time.",
        )
