"""How fast a server writes WAL."""

from collections.abc import Callable
from time import monotonic
from typing import NamedTuple

from walrelay.lsn import LSN
from walrelay.postgres.catalog import Catalog

_MEASURED, _APART = 60.0, 1.0  # seconds in which the rate is measured, and between positions that are kept


class _Seen(NamedTuple):
    at: float  # by `monotonic`
    lsn: LSN


class WalPace:
    """How fast the server writes WAL, by the positions that were seen within the last minute; the first question takes
    `moment` seconds.
    """

    def __init__(self, wait: Callable[[float], object], moment: float = 2.0) -> None:
        self._wait, self._moment = wait, moment
        self._seen: tuple[_Seen, ...] = ()  # replaced, and never changed: many threads ask

    def look(self, catalog: Catalog) -> _Seen:
        """Now is a time to measure from."""
        now = _Seen(monotonic(), catalog.current_lsn())
        seen = [each for each in self._seen if now.at - each.at < _MEASURED and each.lsn <= now.lsn]
        if not seen or now.at - seen[-1].at >= _APART:
            seen.append(now)
        self._seen = (*seen,)
        return now

    def per_minute(self, catalog: Catalog) -> int:
        now = self.look(catalog)
        if (early := self._moment - (now.at - self._seen[0].at)) > 0:
            self._wait(early)
            now = self.look(catalog)
        return _per_minute(self._seen[0], now)

    def known_per_minute(self, seconds: float = 10.0) -> int | None:
        """By the positions that were seen already; None where these are of less than so many seconds."""
        seen = self._seen
        return _per_minute(seen[0], seen[-1]) if seen and seen[-1].at - seen[0].at >= seconds else None


def _per_minute(first: _Seen, last: _Seen) -> int:
    return max(0, int((last.lsn - first.lsn) / max(last.at - first.at, 0.001) * 60))
