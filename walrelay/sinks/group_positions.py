"""A relay's own position where a store of groups keeps it, with `delivery: at_least_once` and for commands that move a
slot.
"""

from time import monotonic
from weakref import finalize

from walrelay.errors import Retryable
from walrelay.lsn import LSN, ZERO
from walrelay.model import RelayPosition
from walrelay.sinks.groups import GroupStore

_PATIENCE = 30.0  # seconds


class GroupPositionKeeper:
    """Implements `walrelay.publish.contract.PositionKeeper` by groups of no messages."""

    def __init__(self, groups: GroupStore) -> None:
        self._groups = groups
        self._fenced = False
        finalize(self, groups.close)  # nobody closes a place of positions

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
                raise Retryable("the position was not kept in time")
        return position.lsn
