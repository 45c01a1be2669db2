"""A relay's own position where a store of groups keeps it, with `delivery: at_least_once` and for commands that move a
slot.
"""

from time import monotonic
from weakref import finalize

from walrelay.errors import Retryable, Superseded
from walrelay.lsn import LSN, ZERO
from walrelay.model import RelayPosition
from walrelay.sinks.group_contract import GroupStore
from walrelay.sinks.hosting.circuit import backed_off

_LAST, _FENCE, _KEEP, _KEEP_FENCE = 30.0, 0.5, 1.0, 0.05  # seconds that each may take


class GroupPositionKeeper:
    """Implements `walrelay.publish.contract.PositionKeeper` by groups of no messages. A broker that is away keeps no
    position, and is asked again after a delay.
    """

    def __init__(self, groups: GroupStore) -> None:
        self._groups = groups
        self._fenced = False
        self._broken = ""  # why the store is of no use now
        self._failures, self._again_at = 0, 0.0  # in a row, and when the store is asked next
        self._writing: RelayPosition | None = None
        self._kept = ZERO
        finalize(self, groups.close)  # nobody closes a place of positions

    def fence(self) -> bool:
        return self._fence(_FENCE)

    def trouble(self) -> str:
        return self._broken or self._groups.trouble()

    def last(self) -> RelayPosition | None:
        deadline = monotonic() + _LAST
        while not self.fence():
            if monotonic() > deadline:
                raise Retryable(f"the position could not be read: {self.trouble()}")
        return self._groups.last()

    def keep(self, position: RelayPosition) -> LSN:
        deadline = monotonic() + _KEEP
        try:
            while position.lsn > self._kept and self._fence(_KEEP_FENCE) and (left := deadline - monotonic()) > 0:
                if self._writing is None:
                    self._writing = position
                    self._groups.begin((), position)
                if self._groups.step(left) is True:
                    self._kept, self._writing, self._failures = self._writing.lsn, None, 0
        except Retryable as why:
            self._break(why)
        return self._kept

    def _fence(self, timeout: float) -> bool:
        if self._fenced:
            return True
        if (left := self._again_at - monotonic()) > 0:
            self._groups.step(min(left, timeout))
            return False
        try:
            self._fenced = self._groups.fence(timeout)
        except Retryable as why:
            self._break(why)
        else:
            self._broken = "" if self._fenced else self._broken
        return self._fenced

    def _break(self, why: Retryable) -> None:
        """What was being written may be there. A later position is written over it, or the same one again."""
        if isinstance(why, Superseded):
            raise why
        self._fenced, self._writing = False, None
        self._failures += 1
        self._broken, self._again_at = str(why), monotonic() + backed_off(self._failures)
