"""A relay's own position in the target database with `delivery: at_least_once`, and for commands that move a slot."""

from time import monotonic

from walrelay.errors import Retryable
from walrelay.lsn import LSN, ZERO
from walrelay.model import RelayPosition, System
from walrelay.sinks.postgres.groups import PostgresGroups
from walrelay.sinks.postgres.settings import PostgresSettings
from walrelay.sinks.postgres.writer import TargetMemory

_PATIENCE = 30.0  # seconds


class PostgresPositionKeeper:
    """Implements `walrelay.publish.contract.PositionKeeper` with a connection of its own."""

    def __init__(self, settings: PostgresSettings, system: System, slot: str) -> None:
        self._groups = PostgresGroups(settings, TargetMemory(), system, slot)
        self._fenced = False

    def fence(self) -> bool:
        self._fenced = self._fenced or self._groups.fence()
        return self._fenced

    def trouble(self) -> str:
        return self._groups.trouble()

    def last(self) -> RelayPosition | None:
        deadline = monotonic() + _PATIENCE
        while not self.fence():
            if monotonic() > deadline:
                raise Retryable(f"the positions could not be read: {self.trouble()}")
        return self._groups.last()

    def keep(self, position: RelayPosition) -> LSN:
        if not self.fence():
            return ZERO
        self._groups.begin((), position)
        deadline = monotonic() + _PATIENCE
        while self._groups.step(0.05) is not True:
            if monotonic() > deadline:
                raise Retryable("the database of the sink did not keep the position in time")
        return position.lsn
