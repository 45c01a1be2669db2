"""The source of a relay: checks that the slot may be read, streams it, and watches that the outbox stays published."""

from collections.abc import Callable
from time import monotonic
from typing import NamedTuple

from walrelay.errors import Fatal, Retryable
from walrelay.lsn import LSN
from walrelay.model import System
from walrelay.source.catalog import Catalog, PublishedTable, Slot
from walrelay.source.failures import slot_lost, slot_missing
from walrelay.source.missing import missing
from walrelay.source.stream import Stream, Timing
from walrelay.wire.commands import Options

_BUSY_CHECK = 10.0  # seconds between two looks at the catalog while events flow


class Reading(NamedTuple):
    """What is read, and how. `publication` is None for wal2json, which knows none; `check_interval` in seconds."""

    dsn: str
    slot: str
    publication: str | None
    plugin: str
    options: Options
    table: str  # quoted where it must be
    timing: Timing = Timing()
    check_interval: float = 2.0


class Bookmark(NamedTuple):
    """What this process confirmed last: better than the slot's own memory, which a crash of the server sets back."""

    system: System
    confirmed: LSN


class SlotSource:
    """Implements `walrelay.source.contract.Source`."""

    def __init__(
        self, reading: Reading, catalog: Catalog, bookmark: Bookmark | None, notice: Callable[[str], None]
    ) -> None:
        self._reading, self._catalog = reading, catalog
        catalog.refuse_standby()
        if (found := catalog.slot(reading.slot)) is None:
            raise missing(catalog, reading.slot, bookmark.system if bookmark else None)
        slot = _free(here(usable(found, reading.slot, reading.plugin), catalog.database))
        if reading.plugin == "wal2json":
            _refuse_encoding(catalog.server_encoding())
        self._notice = notice
        self._seen = catalog.noted(reading.slot) if reading.publication is not None else None
        self._stamp = self._seen.stamp if self._seen else ""
        self._vouched = self._check()
        self._checked = monotonic()
        self._stream = Stream(reading.dsn, reading.slot, reading.publication or "", reading.timing, notice)
        try:
            self._stream.begin(_start(slot, bookmark, self._stream.system), reading.options)
            catalog.refuse_synchronous(self._stream.pid)
        except BaseException:
            self._stream.close()
            raise
        self.start = self._confirmed = self._stream.start
        self.read = self._stream.read

    @property
    def bookmark(self) -> Bookmark:
        """What is known to be confirmed, for the next connection of this process."""
        return Bookmark(self._stream.system, self._confirmed)

    def confirm(self, lsn: LSN) -> bool:
        told = self._stream.confirm(lsn)
        if told:
            self._confirmed = lsn
            if monotonic() - self._checked >= _BUSY_CHECK:
                self._look()
        return told

    def vouch(self, lsn: LSN) -> LSN:
        if lsn > self._vouched and monotonic() - self._checked >= self._reading.check_interval:
            self._look()
        return min(lsn, self._vouched)

    def leave(self, lsn: LSN) -> None:
        self._stream.leave(lsn)
        self._confirmed = lsn

    def close(self) -> None:
        self._stream.close()
        self._catalog.close()

    def _look(self) -> None:
        self._vouched = self._check()
        self._catalog.refuse_synchronous(self._stream.pid)  # the setting can be changed under a running relay
        self._checked = monotonic()

    def _check(self) -> LSN:
        """The end of WAL before a moment at which the outbox was still published; Fatal if it is not.

        In this order: a table that leaves the publication after the LSN was read is found by the next check.
        """
        before, reading = self._catalog.current_lsn(), self._reading
        names = (reading.publication or "", reading.table)
        published = self._catalog.published(*names)
        if reading.publication is None:
            _refuse_partitions(published, reading.table)
            published = published._replace(exists=True, covered=True, inserts=True)
        fault = published.fault(*names)
        if not fault and self._seen is not None and (fault := published.since(self._seen, *names)):
            raise Fatal(
                f"the outbox is not published as it was: {fault}; nothing past the last event was confirmed",
                hint="Rows committed in between may not have come through the slot: look for them in the table, unless"
                " one transaction made the change. `walrelay init` takes note of it, and then the relay starts.",
            )
        if fault:
            raise Fatal(
                f"the outbox is not published: {fault}; nothing past the last event was confirmed",
                hint="Rows committed meanwhile may be missing from the stream. `walrelay init` puts the table back into"
                " the publication; rows written before that are still in the table, and must be looked after.",
            )
        if self._stamp not in ("", published.stamp):
            self._notice(
                f"publication {names[0]!r} was altered under the relay: `walrelay doctor` looks at what it has"
            )
        self._seen, self._stamp = published.seen, published.stamp
        return before


def usable(slot: Slot | None, name: str, plugin: str) -> Slot:
    """The slot, if it is there and can be read by this plugin; it may be in use."""
    if slot is None:
        raise slot_missing(name)
    if slot.wal_status == "lost" or slot.invalidation_reason:
        raise slot_lost(name, slot.invalidation_reason or "wal_status is lost")
    if slot.plugin != plugin:
        raise Fatal(
            f"slot {slot.name!r} was made for {slot.plugin or 'physical replication'}, the settings say {plugin}",
            hint=f"Set source.plugin to {slot.plugin}, or source.slot to another slot.",
        )
    return slot


def here(slot: Slot, database: str) -> Slot:
    """The slot, if it is one of the database that is read."""
    if slot.database != database:
        raise Fatal(
            f"slot {slot.name!r} belongs to database {slot.database!r}, the DSN leads to {database!r}",
            hint="Correct the database in source.dsn, or set source.slot to another slot.",
        )
    return slot


def _free(slot: Slot) -> Slot:
    """The slot, if nobody else reads it."""
    if slot.active_pid is not None:
        raise Retryable(f"slot {slot.name!r} is in use by PID {slot.active_pid}; waiting for it", retry_within=1.0)
    return slot


def _refuse_encoding(encoding: str) -> None:
    if encoding not in ("UTF8", "SQL_ASCII"):
        raise Fatal(
            f"wal2json prints text in the database's encoding, which is {encoding}: it cannot be told from UTF-8",
            hint="Read with the output plugin pgoutput, whose text PostgreSQL converts to UTF-8.",
        )


def _refuse_partitions(published: PublishedTable, table: str) -> None:
    if published.partitioned:
        raise Fatal(
            f"table {table} is partitioned: wal2json names the partition with each row, so none would be found",
            hint="Read with the output plugin pgoutput, which can publish rows under the partitioned table's name.",
        )


def _start(slot: Slot, bookmark: Bookmark | None, system: System) -> LSN:
    """Where to start: the later of the slot's position and our own, if both speak of the same history."""
    confirmed = slot.confirmed_flush_lsn or LSN(0)
    if bookmark is None or bookmark.system != system:
        return confirmed
    if confirmed > bookmark.confirmed:
        raise Fatal(
            f"slot {slot.name!r} stands at {confirmed}, but walrelay confirmed only {bookmark.confirmed}: something"
            " else moved it, or it was made anew, and the events in between were not published by this relay",
            hint="Find out who consumed or re-created the slot. The rows in between are still in the outbox table;"
            " starting walrelay again accepts the slot's position.",
        )
    return bookmark.confirmed
