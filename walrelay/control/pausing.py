"""The leader's pause: it reads nothing, keeps the lead, and sees that the pause does not cost more than it may."""

import select
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

from walrelay.control.relay import RelayControl
from walrelay.control.table import Pause, cost, end_pause, note_given_up, pauses, relays_table_exists
from walrelay.errors import Fatal, SlotGivenUp, WalrelayError
from walrelay.model import RelayPosition
from walrelay.observe import Noticed, Observer, Paused, PauseOver
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.retained import SlotWal, slot_wal
from walrelay.postgres.sizes import size
from walrelay.postgres.slots import drop_slot
from walrelay.table.published import ended_before

_LIMIT_LOOK = 2.0  # seconds between two looks at the WAL that is retained, if it has a limit


class LeaderPause:
    """Implements `walrelay.relay.contract.Pausing`, in the relay's thread."""

    def __init__(self, control: RelayControl, observer: Observer, wakes: int | None = None) -> None:
        """`wakes`: a descriptor that is readable when the relay is to stop."""
        self._control, self._observer, self._wakes = control, observer, wakes
        control.observer = observer

    def asked(self) -> bool:
        return self._control.pause is not None

    @contextmanager
    def while_leading(self, catalog: Catalog) -> Iterator[None]:
        self._look(catalog)
        self._control.lead()
        error = ""
        try:
            yield
        except Fatal as fatal:
            error = str(fatal)
            raise
        finally:
            self._control.leave(error)

    def _look(self, catalog: Catalog) -> None:
        """Before anything is read, or somebody who takes over would publish in spite of a pause."""
        with self._unless_it_cannot(catalog, "whether the relay is paused cannot be seen, so it runs"):
            if relays_table_exists(catalog):
                with catalog.connection.transaction():
                    catalog.run("SET LOCAL lock_timeout = '1s'")
                    found = pauses(catalog, [self._control.slot])
                self._control.wish(found.get(self._control.slot))

    @contextmanager
    def _unless_it_cannot(self, catalog: Catalog, what: str) -> Iterator[None]:
        """An error of the table is told, and ends nothing; one of the connection is raised."""
        try:
            yield
        except WalrelayError as error:
            if catalog.connection.closed:
                raise
            hint = f" (hint: {error.hint})" if error.hint else ""
            self._observer.saw(Noticed(f"walrelay.relays: {what}: {error}{hint}"))

    def hold(
        self, catalog: Catalog, still_leads: Callable[[], object], interval: float, stop: Callable[[], bool]
    ) -> None:
        control, begun, told, why = self._control, monotonic(), "", "resumed"
        while not stop():
            control.news.silence()
            if (pause := control.pause) is None:
                break
            still_leads()
            wal = slot_wal(catalog, [control.slot]).get(control.slot)
            if str(pause) != told:
                told = str(pause)
                self._observer.saw(Paused(control.slot, told, cost(wal), pause.since))
            if monotonic() >= control.ends_at:
                why = f"it was to last until {pause.until}"
                self._end(catalog, pause)
            elif wal is not None and pause.limit is not None and (wal.retained or 0) >= pause.limit:
                why = f"the slot retains {size(wal.retained or 0)} of WAL, and the limit was {size(pause.limit)}"
                if pause.drops_slot:
                    self._give_up(catalog, pause, why, wal)
                self._end(catalog, pause)
            else:
                look = interval if pause.limit is None else min(interval, _LIMIT_LOOK)
                self._wait(min(look, control.ends_at - monotonic()))
        if not stop():
            self._observer.saw(PauseOver(why, monotonic() - begun))

    def _wait(self, seconds: float) -> None:
        poll = select.poll()
        for descriptor in filter(None, (self._control.news.fileno(), self._wakes)):
            poll.register(descriptor, select.POLLIN)
        poll.poll(max(0.0, seconds * 1000))

    def _end(self, catalog: Catalog, pause: Pause) -> None:
        """It is over even if that cannot be written."""
        self._control.end_pause(pause)
        with self._unless_it_cannot(
            catalog, "the pause is over, but this could not be noted, and a restart may find it"
        ):
            end_pause(catalog, self._control.slot, pause)

    def _give_up(self, catalog: Catalog, pause: Pause, why: str, wal: SlotWal) -> None:
        """Drops the slot. How far it had got is noted before, or a recovery would have to find out."""
        name = self._control.slot
        slot = catalog.slot(name)
        if slot is not None and slot.confirmed_flush_lsn is not None:
            xmin = ended_before(catalog, slot, catalog.current_lsn()) or 0
            note_given_up(catalog, RelayPosition(catalog.system(), name, slot.confirmed_flush_lsn, xmin=xmin))
            drop_slot(catalog, name)
        self._end(catalog, pause)
        raise SlotGivenUp(
            f"slot {name!r} was dropped, as the pause ({pause}) said: {why}; events committed since {wal.confirmed}"
            " were not published",
            hint="`walrelay recover` publishes them from the outbox table and makes the slot again (`--dry-run` changes"
            " nothing); then start the relay.",
        )
