"""The leader's pause: it reads nothing, keeps the lead, and sees that the pause does not cost more than it may."""

import select
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from time import monotonic

from walrelay.control.relay import RelayControl
from walrelay.control.table import (
    Pause,
    clear_expired_pause,
    cost,
    end_pause,
    forget_given_up,
    note_given_up,
    pauses,
    relays_table_exists,
)
from walrelay.errors import Fatal, SlotGivenUp, WalrelayError
from walrelay.model import RelayPosition
from walrelay.observe import Leads, Noticed, Observer, Paused, PauseOver
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.failures import Denied
from walrelay.postgres.retained import SlotWal, slot_wal
from walrelay.postgres.sizes import size
from walrelay.postgres.slot_moves import take_row
from walrelay.postgres.slots import drop_slot
from walrelay.table.confirmed import ended_before

_LOOK = 5.0  # seconds after which the table is read again, whatever was notified
_LIMIT_LOOK = 2.0  # seconds between two looks at the WAL that is retained, if it has a limit


class LeaderPause:
    """Implements `walrelay.relay.contract.Pausing`, in the relay's thread."""

    def __init__(self, control: RelayControl, observer: Observer, wakes: int | None = None) -> None:
        """`wakes`: a descriptor that is readable when the relay is to stop."""
        self._control, self._observer, self._wakes = control, observer, wakes
        control.observer = observer
        self._told = ""

    def asked(self) -> bool:
        return self._control.pause is not None

    @contextmanager
    def while_leading(self, catalog: Catalog) -> Iterator[None]:
        with self._unless_it_cannot(catalog, "whether the relay is paused cannot be seen, so it runs"):
            if relays_table_exists(catalog):
                self._read(catalog)  # before an event is: whoever takes over obeys a pause, too
                if self._control.pause is None:
                    self._clear_expired(catalog)
        self._control.lead()
        error = ""
        try:
            with suppress(Denied):  # that is told already, of the pause
                take_row(catalog, self._control.slot, self._control.lead_name, reads=False)  # if it ends early
            self._observer.saw(Leads(True))
            yield
        except Fatal as fatal:
            error = str(fatal)
            raise
        finally:
            self._observer.saw(Leads(False))
            self._control.leave(error)

    def _read(self, catalog: Catalog, *, locked: bool = False) -> None:
        """What the table says, over the relay's own connection: the one that is notified may be silent or away."""
        with catalog.connection.transaction():
            catalog.run("SET LOCAL lock_timeout = '1s'")
            found = pauses(catalog, [self._control.slot], locked=locked)
        self._control.wish(found.get(self._control.slot))

    def _clear_expired(self, catalog: Catalog) -> bool:
        with _soon(catalog):
            return clear_expired_pause(catalog, self._control.slot)

    @contextmanager
    def _unless_it_cannot(self, catalog: Catalog, what: str) -> Iterator[None]:
        """An error of the table is told once, and ends nothing; one of the connection is raised."""
        try:
            yield
        except WalrelayError as error:
            if not catalog.usable:
                raise
            hint = f" (hint: {error.hint})" if error.hint else ""
            text = f"walrelay.relays: {what}: {error}{hint}"
            if text != self._told:
                self._told = text
                self._observer.saw(Noticed(text))

    def hold(
        self, catalog: Catalog, still_leads: Callable[[], object], interval: float, stop: Callable[[], bool]
    ) -> None:
        control, begun, told, why = self._control, monotonic(), "", "resumed"
        while not stop():
            with self._unless_it_cannot(catalog, "whether the pause goes on cannot be seen, so it does"):
                self._read(catalog)
                if control.pause is None and self._clear_expired(catalog):
                    why = "its time has passed"
            control.news.silence()  # its own too; none is missed, as the pause is looked at after this
            if (pause := control.pause) is None:
                break
            still_leads()
            wal = slot_wal(catalog, [control.slot]).get(control.slot)
            if str(pause) != told:
                told = str(pause)
                self._observer.saw(Paused(control.slot, told, cost(wal), pause.since))
            if monotonic() >= control.ends_at:
                why = "its time has passed"
                self._end(catalog, pause)
            elif wal is not None and pause.limit is not None and (wal.retained or 0) >= pause.limit:
                why = f"the slot retains {size(wal.retained or 0)} of WAL, and the limit was {size(pause.limit)}"
                if not pause.drops_slot:
                    self._end(catalog, pause)
                    continue
                dropped = False
                with self._unless_it_cannot(catalog, "the slot is not dropped"):
                    dropped = self._give_up(catalog, pause)
                if dropped:
                    raise _given_up(control.slot, pause, why, wal)
                why = "resumed"
                self._wait(_LIMIT_LOOK)
            else:
                look = min(interval, _LOOK if pause.limit is None else _LIMIT_LOOK)
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
        what = "the pause is over, but this could not be noted, and a restart may find it"
        with self._unless_it_cannot(catalog, what), _soon(catalog):
            end_pause(catalog, self._control.slot, pause)

    def _give_up(self, catalog: Catalog, pause: Pause) -> bool:
        """Drops the slot, unless the pause was ended or changed meanwhile. How far the slot had got is noted before, or
        a recovery would have to find out.
        """
        name = self._control.slot
        slot = catalog.slot(name)
        if slot is None or slot.confirmed_flush_lsn is None:
            return False
        xmin = ended_before(catalog, slot, catalog.current_lsn()) or 0
        note_given_up(catalog, RelayPosition(catalog.system(), name, slot.confirmed_flush_lsn, xmin=xmin))
        with catalog.connection.transaction():  # the lock of the row keeps an operator's resumption out
            self._read(catalog, locked=True)
            wanted = self._control.pause
            if wanted is None or wanted.terms != pause.terms:
                forget_given_up(catalog, name)
                return False
            drop_slot(catalog, name)
            end_pause(catalog, name, pause)
        self._control.end_pause(pause)
        return True


@contextmanager
def _soon(catalog: Catalog) -> Iterator[None]:
    """A transaction that waits for no standby, and for a lock no longer than a second: events wait behind it."""
    with catalog.connection.transaction():
        catalog.run("SET LOCAL synchronous_commit = local")
        catalog.run("SET LOCAL lock_timeout = '1s'")
        yield


def _given_up(slot: str, pause: Pause, why: str, wal: SlotWal) -> SlotGivenUp:
    return SlotGivenUp(
        f"slot {slot!r} was dropped, as the pause ({pause}) said: {why}; events committed since {wal.confirmed}"
        " were not published",
        hint="`walrelay recover` publishes them from the outbox table and makes the slot again (`--dry-run` changes"
        " nothing); then start the relay.",
    )
