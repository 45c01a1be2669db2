"""The relay's own position: kept before PostgreSQL is told, so that it is never behind the slot's.

A crash of PostgreSQL forgets what was confirmed since the last checkpoint; an own position does not. What is kept is
what is confirmed, the same value in that order. With it goes an xid: every transaction below it had ended before the
position. If the slot is ever lost, rows of those transactions are known to be published.
"""

from collections.abc import Callable
from time import monotonic, sleep
from typing import NamedTuple

from walrelay.errors import NotKept
from walrelay.lsn import LSN, ZERO
from walrelay.model import Position, System
from walrelay.postgres.catalog import Catalog
from walrelay.source.contract import Positions

_IDLE_INTERVAL = 10.0  # seconds: keeping a position in a table moves the WAL, which would then have to be kept again
_IDLE_BYTES = 8 * 2**20  # of WAL, that need not wait for that
_HORIZON_INTERVAL = 5.0  # seconds
_LAST_PATIENCE, _LAST_PAUSE = 2.0, 0.01  # seconds
_RETRY, _QUIET = 1.0, 30.0  # seconds between two tries where there is no space, and between two lines about it


class Horizon(NamedTuple):
    """Every transaction with an xid8 below `xmin` had ended before the server got to `lsn`."""

    xmin: int
    lsn: LSN


class Keeper:
    """Owned by one run. `interval`: seconds between two positions while events are published.

    Without space for a position nothing more is confirmed, which `notice` is told, and everything else goes on: a run
    that ended would publish again what it has not confirmed, each time.
    """

    def __init__(self, positions: Positions, catalog: Catalog, interval: float, notice: Callable[[str], None]) -> None:
        self._positions, self._catalog, self._interval, self._notice = positions, catalog, interval, notice
        self._durable = Position(System("", 0), "", ZERO)
        self._horizon = Horizon(0, ZERO)
        self._kept_at = self._looked_at = 0.0
        self._failed_at = self._told_at = 0.0  # 0.0: it did not
        self._idle_interval = interval

    def begin(self, position: Position) -> None:
        """The stream began with all before `position` confirmed; until a snapshot says more, its xmin holds."""
        self._durable, self._horizon = position, Horizon(position.xmin, position.lsn)

    @property
    def xmin(self) -> int:
        """That of the position that was kept last."""
        return self._durable.xmin

    def keep(self, lsn: LSN, *, idle: bool) -> LSN:
        """How much of what is before `lsn` may be confirmed: what is kept. `idle`: nothing was published for it."""
        if lsn > self._durable.lsn and self._due(lsn, idle=idle):
            self._idle_interval = min(2 * self._idle_interval, _IDLE_INTERVAL) if idle else self._interval
            return self.keep_now(lsn)
        return min(lsn, self._durable.lsn)

    def keep_now(self, lsn: LSN) -> LSN:
        """As `keep`, whether it is due or not."""
        if lsn > self._durable.lsn:
            wanted = self._durable._replace(lsn=lsn, xmin=self._xmin(lsn))
            try:
                self._durable = wanted._replace(lsn=max(self._durable.lsn, self._positions.keep(wanted)))
            except NotKept as why:
                self._not_kept(why)
            else:
                self._kept_at = monotonic()
                self._kept_again()
        return min(lsn, self._durable.lsn)

    def keep_at_last(self, lsn: LSN) -> LSN:
        """As `keep_now`, with some patience: what is not kept when the relay leaves is published again."""
        deadline = monotonic() + _LAST_PATIENCE
        while (kept := self.keep_now(lsn)) < lsn and monotonic() < deadline:
            sleep(_LAST_PAUSE)  # a place that cannot take it now says so at once
        return kept

    def _not_kept(self, why: NotKept) -> None:
        self._failed_at = monotonic()
        if not self._told_at or self._failed_at - self._told_at >= _QUIET:
            self._told_at = self._failed_at
            self._notice(
                f"{why}: events are published, but nothing past {self._durable.lsn} is confirmed until it can be; make"
                " room there, and on the server, which keeps its WAL from there on"
            )

    def _kept_again(self) -> None:
        if self._failed_at:
            self._failed_at = self._told_at = 0.0
            self._notice("the relay's own position is kept again")

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
            self._horizon = Horizon(*self._catalog.horizon())
            self._looked_at = monotonic()
        return known
