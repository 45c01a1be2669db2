"""The relay's own position: where it is kept, when, and whether it still means the same records.

It is kept before PostgreSQL is told, so it is never behind the slot's. A crash of PostgreSQL forgets what was confirmed
since the last checkpoint; an own position does not. Every transaction below its `xmin` had ended before the position:
if the slot is ever lost, rows of those transactions are known to be published.

A position inside a transaction says how many of its records are published. Other settings count more or fewer records,
or others, and then the same number is another record: events would be skipped silently, or repeated. So a position says
how its records were counted, and under other settings nothing is published. (To count whatever may ever be a record
would count rows of other tables and messages of others: the ordinals that consumers see would have gaps, and wal2json
is not sent those rows at all.)
"""

import os
from collections.abc import Callable
from errno import EDQUOT, ENOSPC
from pathlib import Path
from time import monotonic, sleep
from typing import NamedTuple

from walrelay.errors import Disconnected, Fatal, NotKept
from walrelay.lsn import LSN, ZERO
from walrelay.model import Counting, LatestCommit, RelayPosition, System
from walrelay.postgres.catalog import Catalog
from walrelay.source.contract import Positions

_IDLE_INTERVAL = 10.0  # seconds: keeping a position in a table moves the WAL, which would then have to be kept again
_IDLE_BYTES = 8 * 2**20  # of WAL, after which an idle position need not wait
_HORIZON_INTERVAL = 5.0  # seconds
_LAST_PATIENCE, _LAST_PAUSE = 2.0, 0.01  # seconds
_RETRY, _QUIET = 1.0, 30.0  # seconds between two tries where there is no space, and between two lines about it


class TransactionHorizon(NamedTuple):
    """Every transaction with an xid8 below `xmin` had ended before the server got to `lsn`."""

    xmin: int
    lsn: LSN


class OwnPositionKeeper:
    """Owned by one run. `interval`: seconds between two positions while events are published.

    Without space for a position nothing more is confirmed, which `notice` reports, and everything else goes on: a run
    that ended would publish again what it has not confirmed, each time.
    """

    def __init__(self, positions: Positions, catalog: Catalog, interval: float, notice: Callable[[str], None]) -> None:
        self._positions, self._catalog, self._interval, self._notice = positions, catalog, interval, notice
        self._durable = RelayPosition(System("", 0), "", ZERO)
        self._horizon = TransactionHorizon(0, ZERO)
        self._kept_at = self._looked_at = 0.0
        self._failed_at = self._reported_at = 0.0  # 0.0: it did not
        self._idle_interval = interval
        self.latest: LatestCommit | None = None
        """Goes with every position."""

    def begin(self, position: RelayPosition) -> None:
        """To be called when the stream began, with all before `position` confirmed. The xmin holds until a
        snapshot says more.
        """
        self._durable, self._horizon = position, TransactionHorizon(position.xmin, position.lsn)

    @property
    def in_the_database(self) -> bool:
        """Whether to keep a position writes WAL."""
        return isinstance(self._positions, TablePositions)

    @property
    def xmin(self) -> int:
        """The xmin of the position that was kept last."""
        return self._durable.xmin

    def keep(self, lsn: LSN, *, idle: bool) -> LSN:
        """Keeps a position at `lsn` if that is due; returns up to where may be confirmed. `idle`: nothing was published
        before it.
        """
        if lsn > self._durable.lsn and self._due(lsn, idle=idle):
            self._idle_interval = min(2 * self._idle_interval, _IDLE_INTERVAL) if idle else self._interval
            return self.keep_now(lsn)
        return min(lsn, self._durable.lsn)

    def keep_now(self, lsn: LSN) -> LSN:
        """`keep`, whether it is due or not."""
        if lsn > self._durable.lsn:
            wanted = self._durable._replace(lsn=lsn, xmin=self._xmin(lsn), latest=self.latest)
            try:
                self._durable = wanted._replace(lsn=max(self._durable.lsn, self._positions.keep(wanted)))
            except NotKept as why:
                self._not_kept(why)
            else:
                self._kept_at = monotonic()
                self._kept_again()
        return min(lsn, self._durable.lsn)

    def keep_at_last(self, lsn: LSN) -> LSN:
        """`keep_now`, tried for two seconds: what is not kept when the relay leaves is published again."""
        deadline = monotonic() + _LAST_PATIENCE
        while (kept := self.keep_now(lsn)) < lsn and monotonic() < deadline:
            sleep(_LAST_PAUSE)  # a place without room fails at once
        return kept

    def _not_kept(self, why: NotKept) -> None:
        self._failed_at = monotonic()
        if not self._reported_at or self._failed_at - self._reported_at >= _QUIET:
            self._reported_at = self._failed_at
            self._notice(
                f"{why}: events are published, but nothing past {self._durable.lsn} is confirmed until it can be; free"
                " disk space there; the server keeps all WAL from that position on"
            )

    def _kept_again(self) -> None:
        if self._failed_at:
            self._failed_at = self._reported_at = 0.0
            self._notice("the relay's own position can be written again")

    def _due(self, lsn: LSN, *, idle: bool) -> bool:
        if self._failed_at and monotonic() - self._failed_at < _RETRY:
            return False
        age = monotonic() - self._kept_at
        if idle and lsn - self._durable.lsn < _IDLE_BYTES:
            return age >= self._idle_interval
        return age >= self._interval

    def _xmin(self, lsn: LSN) -> int:
        """The xmin of the last snapshot that was taken before the server got to `lsn`."""
        known = self._horizon.xmin if lsn >= self._horizon.lsn else self._durable.xmin
        if lsn >= self._horizon.lsn and monotonic() - self._looked_at >= _HORIZON_INTERVAL:
            self._horizon = TransactionHorizon(*self._catalog.horizon())
            self._looked_at = monotonic()
        return known


class FilePositions:
    """A small JSON file that is replaced as a whole, so it is never half written. For one instance only."""

    def __init__(self, path: Path, slot: str) -> None:
        self._path, self._slot = path, slot

    def fence(self) -> bool:
        return True  # it is for one instance

    def trouble(self) -> str:
        return ""

    def last(self) -> RelayPosition | None:
        try:
            position = RelayPosition.of_json(self._path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, LookupError) as cause:
            raise Fatal(
                f"the position file {self._path} cannot be read: {cause}",
                hint="Nothing was changed. Restore the file; or remove it, and the relay begins where the slot stands.",
                page="position",
            ) from cause
        if position.slot != self._slot:
            raise Fatal(
                f"the position file {self._path} is of slot {position.slot!r}, not of {self._slot!r}",
                hint="Give each relay a file of its own: position.path.",
                page="position",
            )
        return position

    def keep(self, position: RelayPosition) -> LSN:
        beside = self._path.with_name(f"{self._path.name}.new")
        try:
            with beside.open("wb") as file:
                file.write(position.as_json())
                file.flush()
                os.fsync(file.fileno())
            beside.replace(self._path)
            _sync_directory(self._path.parent)
        except OSError as cause:
            why = f"the position file {self._path} cannot be written: {cause.strerror}"
            if cause.errno in (ENOSPC, EDQUOT):  # space may come back
                raise NotKept(why) from cause
            raise Fatal(
                why,
                hint="It belongs on a disk that outlives the process, in a directory that walrelay may write to.",
                page="position",
            ) from cause
        return position.lsn


class TablePositions:
    """One row of walrelay.positions, shared by all instances and updated ten times a second at most.

    Only the instance whose walsender, `reader`, has the slot may write (None: the process that made the slot just now):
    one that was frozen would set its successor's position back.
    """

    def __init__(self, catalog: Catalog, slot: str, reader: int | None) -> None:
        self._catalog, self._slot, self._reader = catalog, slot, reader
        catalog.commits_survive()  # or a crash could undo the row, and not the slot, which is saved separately
        if catalog.value("SELECT to_regclass('walrelay.positions')") is None:
            raise Fatal(
                "there is no table walrelay.positions to keep the position in",
                hint="Run `walrelay init`.",
                page="position",
            )

    def fence(self) -> bool:
        return True  # whoever is not the reader cannot write

    def trouble(self) -> str:
        return ""

    def last(self) -> RelayPosition | None:
        rows = self._catalog.rows(
            "SELECT system_identifier, timeline, lsn::text, commit_lsn::text, ordinal, xmin_xid::text::int8"
            " FROM walrelay.positions WHERE slot_name = %s",
            self._slot,
        )
        if not rows:
            return None
        identifier, timeline, lsn, commit_lsn, ordinal, xmin = rows[0]
        return RelayPosition(
            System(identifier, timeline), self._slot, LSN.parse(lsn), LSN.parse(commit_lsn), ordinal, xmin
        )

    def keep(self, position: RelayPosition) -> LSN:
        written = self._catalog.rows(
            """
            INSERT INTO walrelay.positions AS p
                (slot_name, system_identifier, timeline, lsn, commit_lsn, ordinal, xmin_xid)
            SELECT slot_name, %s, %s, %s::pg_lsn, %s::pg_lsn, %s, %s::text::xid8
            FROM pg_replication_slots
            WHERE slot_name = %s AND database = current_database() AND active_pid IS NOT DISTINCT FROM %s::int4
            ON CONFLICT (slot_name) DO UPDATE SET (system_identifier, timeline, lsn, commit_lsn, ordinal, xmin_xid,
                kept_at) = (excluded.system_identifier, excluded.timeline, excluded.lsn, excluded.commit_lsn,
                excluded.ordinal, excluded.xmin_xid, now())
            RETURNING 1
            """,
            *(*position.system[:2], str(position.lsn), str(position.commit_lsn), position.ordinal, position.xmin),
            *(position.slot, self._reader),
        )
        if not written:
            raise Disconnected(f"slot {self._slot!r} is not read by this relay any more")
        return position.lsn


def _sync_directory(directory: Path) -> None:
    """Without this the file is safe, but its name may not be."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


_SETTINGS = Counting("source.plugin", "source.publication", "outbox.table", "outbox.messages.prefix")


def refuse_another_count(position: RelayPosition, now: Counting) -> None:
    """Fatal if the records of the transaction in which `position` lies are counted in another way now."""
    then = position.counted
    if then is None:
        if now.prefix is None:  # earlier versions did not write it, and had 'walrelay' by default
            raise _refused(position, "was kept by an earlier version, for which outbox.messages.prefix was walrelay")
    elif then != now:
        raise _refused(position, f"was counted with {_differences(then, now)}")


def _differences(then: Counting, now: Counting) -> str:
    each = zip(_SETTINGS, then, now, strict=True)
    return " and ".join(f"{name}: {_shown(old)}, not {_shown(new)}" for name, old, new in each if old != new)


def _shown(value: str | None) -> str:
    return "null" if value is None else value


def _refused(position: RelayPosition, why: str) -> Fatal:
    return Fatal(
        f"the transaction at {position.commit_lsn} is published up to before its record {position.ordinal}, which {why}"
        ": under these settings another record has that number, and events would be skipped or repeated",
        hint="Start the relay with those settings until `walrelay status` shows a confirmed position beyond"
        f" {position.commit_lsn}, then with the new ones; if it stops at a record that cannot be read, `walrelay skip`"
        " skips it. `walrelay run --from-slot` begins at the slot's position instead, and repeats what was published"
        " after that.",
        page="position",
    )
