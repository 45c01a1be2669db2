"""The lead of an instance while nothing streams: it lasts as long as the connection."""

from collections.abc import Callable

from walrelay.postgres.catalog import Catalog
from walrelay.relay.contract import Pausing
from walrelay.source.slot_source import usable_slot
from walrelay.source.stream import Stream
from walrelay.wiring import Wiring

_INTERVAL = 2.0  # seconds between two questions whether it is still there


class Lead:
    """Over that connection. `stop`: whether the process ends."""

    def __init__(
        self, stream: Stream, catalog: Catalog, wiring: Wiring, pausing: Pausing, stop: Callable[[], bool]
    ) -> None:
        self._stream, self._catalog, self._wiring = stream, catalog, wiring
        self._pausing, self._stop = pausing, stop

    def check(self) -> None:
        """Raises Disconnected if it may be lost, Fatal if the slot is lost (a stream would tell that itself)."""
        self._stream.command("SELECT 1")
        slot, plugin = self._wiring.slot, self._wiring.plugin
        usable_slot(self._catalog.slot(slot), slot, plugin, self._catalog.database)

    def leaving(self) -> bool:
        """Whether the relay is to stop or to pause."""
        return self._stop() or self._pausing.asked()

    def wait(self, seconds: float, wait: Callable[[float], object], clock: Callable[[], float]) -> None:
        """Keeps it for so long, or until the relay is to stop or to pause."""
        end = clock() + seconds
        while not self.leaving() and (left := end - clock()) > 0:
            wait(min(left, self._stream.heartbeat, _INTERVAL))
            self.check()

    def hold_while_paused(self) -> None:
        """Returns when the pause is over, or the relay is to stop."""
        self._stream.rest()
        self._pausing.hold(self._catalog, self.check, self._stream.heartbeat, self._stop)
