"""The source of a relay: checks that the slot may be read, streams it, and watches that the outbox stays published."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from math import inf
from time import monotonic, sleep
from typing import NamedTuple

from walrelay.errors import Disconnected, Fatal, Waiting, WalrelayError
from walrelay.lsn import LSN, ZERO
from walrelay.model import RelayPosition
from walrelay.postgres.catalog import Catalog, Slot, another_slot, foreign
from walrelay.postgres.failures import slot_lost, slot_missing
from walrelay.postgres.parts import incompletely_published, not_delivered
from walrelay.postgres.publications import PublishedTable
from walrelay.postgres.slot_moves import STOP_PREFIX, at_once, reached, report_end
from walrelay.postgres.slot_records import missing_slot, noted_publication
from walrelay.postgres.slots import without_two_phase
from walrelay.source.lag import WaitReport
from walrelay.source.positions import OwnPositionKeeper
from walrelay.source.start import OwnPosition, Server, Start, is_continued, set_back, start_of
from walrelay.source.stream import Stream
from walrelay.wire.commands import Options
from walrelay.wire.frames import parse_keepalive

_HANDOVER, _HANDOVER_LOOK = 1.0, 0.01  # seconds
_RETRACED = 0.1  # seconds to wait for frames
_FOLLOW = 1.0  # seconds to wait for the end of WAL when the relay stops
_STOP = STOP_PREFIX.encode() + b"\0"
_BUSY_CHECK = 10.0  # seconds between two looks at the catalog while events flow


class SlotReading(NamedTuple):
    """`publication`: None for wal2json, which has none. `check_interval` in seconds."""

    slot: str
    publication: str | None
    plugin: str
    options: Options
    table: str  # quoted where it must be
    check_interval: float = 2.0


class SlotSource:
    """Implements `walrelay.source.contract.Source` over a stream that leads, to a primary, and a catalog of the same
    server; the caller has checked that.

    Made when the slot may be read; `start_stream` starts reading. `last`: what this process confirmed before, if it
    did.
    """

    def __init__(
        self,
        reading: SlotReading,
        stream: Stream,
        catalog: Catalog,
        notice: Callable[[str], None],
        last: RelayPosition | None = None,
    ) -> None:
        self._reading, self._stream, self._catalog = reading, stream, catalog
        self._keeper: OwnPositionKeeper | None = None
        self.latest = last.latest if last else None
        self.lead = ""  # its name in walrelay.relays; empty: this relay reports nothing
        self.report_stop: Callable[[Catalog, LSN], None] | None = None
        """Writes the last report of a relay that stops."""
        self.system, self.pid = stream.identify(), stream.pid  # asked only now: a promotion changes it
        if catalog.slot(reading.slot) is None:
            raise missing_slot(catalog, reading.slot, last.system if last else None)
        self.slot = _free(reading, catalog)
        self._notice = notice
        self._report = WaitReport(catalog, reading.slot)
        self._seen = noted_publication(catalog, reading.slot) if reading.publication is not None else None
        self._stamp = self._seen.stamp if self._seen else ""
        self._skipped_parts = ""
        self._vouched = self._check()
        self._checked = monotonic()
        self._event_confirmed = -inf  # when a position that events brought was last confirmed
        self._idle = ZERO

    def find_start(self, own: OwnPosition | None) -> Start:
        """Where to begin, given the relay's own position; Fatal where events may be missing."""
        branches = self._stream.branches(self.system.timeline) if own else {}
        behind = own is not None and (self.slot.confirmed_flush_lsn or ZERO) > own.position.lsn
        known = at_once(self._catalog, lambda: reached(self._catalog, self.slot.name), None) if behind else None
        return start_of(self.slot, own, Server(self.system, self._catalog.current_lsn(), branches), known)

    def continues(self, remembered: RelayPosition, read: LSN) -> bool:
        """Whether what this process has read, up to `read`, and holds may be what comes next, although it was away."""
        return is_continued(self.slot, remembered, read, self.system, self._catalog.current_lsn())

    @property
    def wal_end(self) -> LSN:
        return self._catalog.current_lsn()

    def set_back(self, own: OwnPosition, same: LSN) -> Start:
        """See `walrelay.source.start.set_back`."""
        return set_back(self.slot, own, same, self.wal_end)

    @contextmanager
    def retrace(self, stop: Callable[[], bool]) -> Iterator[Callable[[], list[bytes]]]:
        """Streams from where the slot stands, and confirms nothing; the function reads frames. In the end the
        connection can stream again. Disconnected where `stop` is true.
        """
        confirmed = self.slot.confirmed_flush_lsn or ZERO
        self._stream.start_stream(confirmed, self._reading.options)

        def read() -> list[bytes]:
            frames = self._stream.read(_RETRACED)
            if stop():
                raise Disconnected("stopped while the WAL was compared with what was read before")
            self._stream.confirm(confirmed)
            return frames

        yield read
        self._stream.pause(stop)

    def start_stream(
        self, start: LSN, keeper: OwnPositionKeeper | None = None, *, confirmed: LSN | None = None, xmin: int = 0
    ) -> None:
        """`keeper`: keeps a position of the relay's own, if it has one. `confirmed`: up to where all is durable, if not
        up to `start`. `xmin`: see RelayPosition; for `confirmed`.
        """
        self._stream.start_stream(start, self._reading.options, confirmed=confirmed)
        self._catalog.refuse_synchronous(self._stream.pid)
        self.start = self._stream.start
        self._confirmed, self._xmin = self.start if confirmed is None else confirmed, xmin
        self._keeper = keeper
        if keeper is not None:
            keeper.latest = self.latest
            keeper.begin(RelayPosition(self.system, self._reading.slot, self._confirmed, xmin=xmin))
        self.read = self._stream.read

    @property
    def bookmark(self) -> RelayPosition:
        """What is known to be confirmed, for the next connection of this process."""
        xmin = self._xmin if self._keeper is None else self._keeper.xmin
        return RelayPosition(self.system, self._reading.slot, self._confirmed, xmin=xmin, latest=self.latest)

    def wake_by(self, descriptor: int | None) -> None:
        self._stream.wake_by(descriptor)

    def confirm(self, lsn: LSN) -> bool:
        if self._keeper is not None:
            self._keeper.latest = self.latest
            lsn = self._keeper.keep(lsn, idle=lsn == self._idle)
        if lsn > self._confirmed and monotonic() - self._checked >= _BUSY_CHECK:
            self._look()  # not after it: what is confirmed has to be told
        moved = self._stream.confirm(lsn)
        if moved:
            self._confirmed = lsn
            if lsn != self._idle:
                self._event_confirmed = monotonic()
        return moved

    def vouch(self, lsn: LSN) -> LSN:
        """Looks at the catalog only if no events flow: a look costs them 10 ms, and they move the position anyway."""
        interval, now = self._reading.check_interval, monotonic()
        if lsn > self._vouched and now - self._checked >= interval and now - self._event_confirmed >= interval:
            self._look()
        self._idle = min(lsn, self._vouched)
        return self._idle

    def report_waiting(self, since: int | None) -> None:
        self._report.report_waiting(since)

    def leave(self, lsn: LSN, *, settled: bool = False) -> None:
        """If the relay stops, its last report comes before the last confirmation: so nothing is left in the slot, which
        pg_upgrade asks for. A position in the database is a commit behind the one that it names; then it is left.
        """
        if settled and self.report_stop is not None and not (self._keeper and self._keeper.in_the_database):
            with suppress(WalrelayError):  # what cannot be reported is left in the slot
                lsn = self._report_the_stop(lsn, self.report_stop)
        if self._keeper is not None:
            lsn = self._keeper.keep_at_last(lsn)
        self._stream.leave(lsn)
        self._confirmed = lsn

    def pause(self, lsn: LSN, stop: Callable[[], bool]) -> None:
        if self._keeper is not None:
            lsn = self._keeper.keep_at_last(lsn)
        self._stream.pause(stop, confirmed=lsn)
        self._confirmed = lsn

    def _report_the_stop(self, lsn: LSN, report: Callable[[Catalog, LSN], None]) -> LSN:
        """Up to where nothing but walrelay's own report came; Waiting where anything else did. Before version 17 there
        is nothing to gain: pg_upgrade drops slots.
        """
        if self._catalog.server_version < 170000:
            return lsn
        report(self._catalog, lsn)
        self._idle_up_to(self._catalog.current_lsn())
        end = report_end(self._catalog, self.slot.name)
        return lsn if end is None else self._idle_up_to(end)

    def _idle_up_to(self, end: LSN) -> LSN:
        """`end`, once the server has got there without an event."""
        self._look()
        deadline, got = monotonic() + _FOLLOW, ZERO
        while got < end:
            frames = self._stream.read(_RETRACED)
            if monotonic() > deadline or any(frame[:1] != b"k" and _STOP not in frame for frame in frames):
                raise Waiting("something is left in the slot")
            got = max([got, *(parse_keepalive(frame).wal_end for frame in frames if frame[:1] == b"k")])
            self._stream.confirm(self._confirmed)
        return end

    def _look(self) -> None:
        self._vouched = self._check()
        self._catalog.refuse_synchronous(self._stream.pid)  # the setting can be changed under a running relay
        self._checked = monotonic()

    def _check(self) -> LSN:
        """The end of WAL before a moment at which the outbox was still published; Fatal if it is not.

        The LSN is read first: a table that leaves the publication after that is found by the next check.
        """
        before, reading = self._catalog.current_lsn(), self._reading
        names = (reading.publication or "", reading.table)
        published = self._catalog.published(*names)
        if reading.publication is None:
            _refuse_partitions(published, reading.table)
            published = published._replace(exists=True, covered=True, inserts=True)
        if fault := published.unwritten:
            raise Fatal(
                f"the outbox is not published: {fault}; nothing past the last event was confirmed",
                hint="`walrelay doctor` has the statement that fixes it. Rows committed meanwhile are in no WAL: look"
                " for them in the table.",
                page="not-published",
            )
        fault = published.fault(*names)
        if not fault and self._seen is not None and (fault := published.since(self._seen, *names)):
            raise Fatal(
                f"the outbox is not published as it was: {fault}; nothing past the last event was confirmed",
                hint="Rows committed in between may be missing from the stream: compare with the table, unless the"
                " change was made in a single transaction. `walrelay init` takes note of it; then the relay starts.",
                page="not-published",
            )
        if fault:
            raise Fatal(
                f"the outbox is not published: {fault}; nothing past the last event was confirmed",
                hint="Rows committed meanwhile may be missing from the stream. `walrelay init` puts the table back into"
                " the publication; rows written before that are in the table only, and are not published by it.",
                page="not-published",
            )
        if self._stamp not in ("", published.stamp):
            self._notice(
                f"publication {names[0]!r} was altered under the relay: `walrelay doctor` looks at what it has, and the"
                " clean-up deletes nothing until `walrelay init` takes note of it"
            )
        self._seen, self._stamp = published.seen, published.stamp
        self._report_skipped_parts(published)
        return before

    def _report_skipped_parts(self, published: PublishedTable) -> None:
        found = cure = ""
        if published.partitioned:
            found = incompletely_published(self._catalog, self._reading.table)
            cure = "start the relay again after that, then see `walrelay audit`; what is missing there `walrelay"
            cure += " replay` publishes"
        elif published.inherited:
            found, cure = not_delivered(self._catalog, self._reading.table), "`walrelay doctor` has the statements"
        if found and found != self._skipped_parts:
            self._notice(f"{found}: {cure}")
        self._skipped_parts = found


def usable_slot(slot: Slot | None, name: str, plugin: str, database: str) -> Slot:
    """The slot, if it exists and can be read with this plugin in this database; it may be in use."""
    if slot is None:
        raise slot_missing(name)
    if slot.wal_status == "lost" or slot.invalidation_reason:
        raise slot_lost(name, slot.invalidation_reason or "wal_status is lost")
    if (why := unreadable_slot(slot, plugin, database)) is not None:
        raise Fatal(f"slot {why.detail}", hint=why.fix, page="server")
    return slot


def _free(reading: SlotReading, catalog: Catalog) -> Slot:
    """The slot, once no other process reads it: the previous leader releases it a moment after the lead."""
    deadline = monotonic() + _HANDOVER
    while True:
        slot = usable_slot(catalog.slot(reading.slot), reading.slot, reading.plugin, catalog.database)
        if slot.active_pid is None:
            return slot
        if monotonic() > deadline:
            raise Waiting(f"slot {slot.name!r} is in use by PID {slot.active_pid}; waiting for it", retry_within=1.0)
        sleep(_HANDOVER_LOOK)


def _refuse_partitions(published: PublishedTable, table: str) -> None:
    if published.partitioned:
        raise Fatal(
            f"table {table} is partitioned: wal2json names the partition with each row, so none would be found",
            hint="Read with the output plugin pgoutput, which can publish rows under the partitioned table's name.",
            page="server",
        )


_PLUGINS = ("pgoutput", "wal2json")


class UnreadableSlot(NamedTuple):
    """`fix`: a line of the settings file, or SQL, to paste."""

    detail: str
    fix: str


def unreadable_slot(slot: Slot, plugin: str, database: str, init: str = "walrelay init") -> UnreadableSlot | None:
    """Why a relay with these settings can never read the slot; None if it can. (A lost slot is another question.) Every
    command that reads a slot asks here, and so does the doctor, so they cannot disagree.

    `init`: the command that makes a slot, for these settings.
    """
    another = another_slot(slot.name, init)
    if (whose := foreign(slot, database)) is not None:
        return UnreadableSlot(whose, another)
    if slot.plugin != plugin:
        named = f"source.plugin: {slot.plugin}   # in the settings"
        detail = f"{slot.name} was made for {slot.plugin}, the settings say {plugin}"
        return UnreadableSlot(detail, named if slot.plugin in _PLUGINS else another)
    if slot.two_phase and slot.plugin == "pgoutput":
        return UnreadableSlot(
            f"{slot.name} was made with two_phase: the first PREPARE TRANSACTION of the database, of whatever table,"
            " would stop the stream for good",
            without_two_phase(slot.name),
        )
    return None
