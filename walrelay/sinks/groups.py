"""Exactly once in groups: messages and the position that they end at become durable together, or not at all.

A group ends where a PostgreSQL transaction does, as soon as the stream is drained or a limit is reached. A transaction
that is larger than a group is cut: its position then names the last record. So what waits is bounded.

While a group is written the next one is taken. It is written when the one before is durable: so groups are durable in
their order, and the last position says which messages are. A refusal ends the sink: nothing behind the last durable
group was seen by anybody, and the next run begins there.

A store whose connection breaks does not end the sink. The store connects again, and its position says what became of
the group that was being written: the group is durable, or it is written again. Any other position is another run's, and
ends the sink.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from time import monotonic
from typing import NamedTuple

from walrelay.errors import Fatal, Retryable, StartAnew, Superseded
from walrelay.lsn import LSN, ZERO
from walrelay.model import Counting, LatestCommit, Message, Receipt, Refusal, RelayPosition, System
from walrelay.sinks.group_contract import Culprit, GroupLimit, GroupStore, GroupTooLarge, PartlyWritten
from walrelay.sinks.hosting.circuit import backed_off
from walrelay.sinks.hosting.sink import Taken

_INTERVAL = 0.1  # seconds after which a group ends though more messages come
_QUIET = 0.005  # seconds without another message after which a group ends without a flush
_PATIENCE = 1.0  # seconds that `keep` may take
_FENCE_WAIT = 0.5  # seconds that a fence waits at a time


class _Mark(NamedTuple):
    position: RelayPosition
    messages: int  # of those that wait: so many are before it


class GroupedSink:
    """Implements `walrelay.publish.ExactlyOnceSink` over a store. Owned by one run."""

    outlives_the_stream = True  # a group that is not written yet is nowhere but here, and waits for room

    def __init__(
        self, store: GroupStore, size: GroupLimit, system: System, slot: str, counting: Counting | None = None
    ) -> None:
        self._store, self._size, self._counting = store, size, counting
        self._durable = RelayPosition(system, slot, ZERO)
        self._xmin = 0
        self._read: LatestCommit | None = None
        self._whole = self._latest = _Mark(self._durable, 0)  # `whole`: at the end of a transaction
        self._waiting: list[Taken] = []
        self._bytes = 0
        self._began = self._marked_at = 0.0
        self._asked = -1  # how many messages waited when `publish` said that there is no room
        self._leaving = False
        self._writing: tuple[Sequence[Taken], RelayPosition] | None = None
        self._settled = Counter[int]()
        self._refusals: list[Refusal] = []
        self._over = False
        self._there: RelayPosition | None = None  # the store's position, as far as this sink knows
        self._broken = ""  # why the store is of no use now
        self._too_large = False  # with the group that is being written
        self._failures, self._again_at = 0, 0.0  # in a row, and when the store is asked next

    def fence(self) -> bool:
        """Waits for a broker that is away; `trouble` says why."""
        fenced = self._fenced(_FENCE_WAIT)
        if fenced:
            with suppress(Fatal):  # which `last` raises
                self._there = self._store.last()
        return fenced

    def last(self) -> RelayPosition | None:
        return self._store.last()  # no floor: a server that was set back has its next position before it

    def read_up_to(self, latest: LatestCommit) -> None:
        self._read = latest

    def publish(self, message: Message, ticket: int) -> bool:
        if self._over or not self._has_room():
            return False
        if (misfit := self._store.misfit(message)) is not None:
            self._refuse(ticket, message, Culprit(0, *misfit))
            return True
        if not self._waiting:
            self._began = monotonic()
        self._waiting.append(Taken(message, ticket))
        self._bytes += len(message.value or b"") + len(message.key or b"")
        return True

    def mark(self, end_lsn: LSN, commit_lsn: LSN = ZERO, ordinal: int = 0, *, over: bool = False) -> None:
        inside = (commit_lsn, ordinal) if ordinal else (ZERO, 0)
        counted = self._counting if ordinal else None
        system, slot, read = self._durable.system, self._durable.slot, self._read
        position = RelayPosition(system, slot, end_lsn, *inside, counted=counted, latest=read)
        self._latest = _Mark(position, len(self._waiting))
        if not ordinal:
            self._whole = self._latest
        self._marked_at = monotonic()
        self._leaving |= over
        self._begin_if_due()

    def receipts(self, timeout: float) -> Iterable[Receipt | Refusal]:
        drained = monotonic() - self._marked_at > _QUIET
        self._begin_if_due(drained=drained)
        self._step(0 if self._settled or self._refusals else timeout)
        self._begin_if_due(drained=drained)
        if self._refusals:
            refusals, self._refusals = self._refusals, []
            return refusals
        settled, self._settled = self._settled, Counter()
        return [Receipt(ticket, count) for ticket, count in settled.items()]

    def flush(self, timeout: float) -> None:
        self._begin_if_due(drained=True)
        self._step(timeout)

    def keep(self, position: RelayPosition) -> LSN:
        """A transaction that was cut and is still to stream stays cut: its first part must not be published again."""
        self._xmin, self._read = position.xmin, position.latest or self._read
        deadline = monotonic() + _PATIENCE
        if position.lsn > self._durable.lsn and not (self._waiting or self._writing or self._over or self._broken):
            cut = self._latest.position
            if cut.commit_lsn < position.lsn:
                cut = cut._replace(commit_lsn=ZERO, ordinal=0, counted=None)
            self._write((), cut._replace(lsn=position.lsn, latest=self._read))
        while self._writing and not self._broken and (left := deadline - monotonic()) > 0:
            if position.lsn <= self._durable.lsn:
                break
            self._step(left)
        return self._durable.lsn

    def close(self) -> None:
        self._over = True
        self._store.close()

    def descriptor(self) -> int | None:
        return self._store.descriptor()

    def trouble(self) -> str:
        return self._broken or self._store.trouble()

    def _has_room(self) -> bool:
        """Without room the relay marks, so that a group can end. It cannot inside a record: then it offers the same
        again, and nothing can end, so that has room.
        """
        waiting = len(self._waiting)
        if waiting < self._size.messages and self._bytes < self._size.bytes:
            return True
        if self._latest.messages or self._writing or self._asked != waiting:
            self._asked = waiting
            return False
        return True

    def _begin_if_due(self, *, drained: bool = False) -> None:
        """Begins to write the messages up to the last mark, if they make a group and none is being written."""
        if self._writing or self._over or self._broken:
            return
        full = len(self._waiting) >= self._size.messages or self._bytes >= self._size.bytes
        ends = full or drained or self._leaving or monotonic() - self._began >= _INTERVAL
        if self._whole.messages and ends:
            self._write_up_to(self._whole)
        elif self._latest.messages and (full or self._leaving):
            self._write_up_to(self._latest)

    def _write_up_to(self, mark: _Mark) -> None:
        taken, self._waiting = self._waiting[: mark.messages], self._waiting[mark.messages :]
        self._bytes = sum(len(each.message.value or b"") + len(each.message.key or b"") for each in self._waiting)
        self._whole = self._whole._replace(messages=max(0, self._whole.messages - mark.messages))
        self._latest = self._latest._replace(messages=self._latest.messages - mark.messages)
        self._began, self._asked = monotonic(), -1
        self._write(taken, mark.position)

    def _write(self, taken: Sequence[Taken], position: RelayPosition) -> None:
        position = position._replace(xmin=self._xmin)
        self._writing = taken, position
        self._begin()

    def _begin(self) -> None:
        assert self._writing is not None
        taken, position = self._writing
        try:
            self._store.begin([each.message for each in taken], position)
        except Retryable as why:
            self._break(why)

    def _step(self, timeout: float) -> None:
        if self._broken:
            self._mend(timeout)
            return
        try:
            outcome = self._store.step(timeout)
        except Retryable as why:
            self._break(why)
            return
        if self._writing is None or outcome is False:
            return
        taken, position = self._writing
        self._writing, self._failures = None, 0
        if isinstance(outcome, Culprit):
            self._refuse(taken[outcome.number].ticket, taken[outcome.number].message, outcome)
            return
        self._durable = self._there = position
        self._settled.update(each.ticket for each in taken)

    def _break(self, why: Retryable) -> None:
        """The store is asked for a new connection after a delay, which grows until a group is durable."""
        if isinstance(why, Superseded):
            raise why
        self._failures = 1 if isinstance(why, PartlyWritten) else self._failures + 1
        self._too_large |= isinstance(why, GroupTooLarge)
        self._broken, self._again_at = str(why), monotonic() + backed_off(self._failures)

    def _fenced(self, timeout: float) -> bool:
        """Whether the store is connected and fenced; asks it for that when it is time."""
        if self._broken and (left := self._again_at - monotonic()) > 0:
            self._store.step(min(left, timeout))
            return False
        try:
            fenced = self._store.fence(min(timeout, _FENCE_WAIT))
        except Retryable as why:
            self._break(why)
            return False
        self._broken = "" if fenced else self._broken
        return fenced

    def _mend(self, timeout: float) -> None:
        """Connects again, and finds out what became of the group that was being written."""
        if not self._fenced(timeout):
            return
        found = self._store.last()
        if self._writing is not None and found == self._writing[1]:
            taken, self._durable = self._writing
            self._there, self._writing, self._too_large = found, None, False
            self._settled.update(each.ticket for each in taken)
        elif found != self._there:
            there = "no position" if found is None else f"the position {found.lsn}"
            raise Superseded(
                f"the broker has {there} of slot {self._durable.slot!r}, which this run did not write: another instance"
                " publishes now, or the broker lost what it had"
            )
        elif self._too_large:  # only the stream knows where else the group can be divided
            raise StartAnew("the store was too slow for a group, or had no room for it, and gets smaller ones")
        elif self._writing is not None:
            self._begin()

    def _refuse(self, ticket: int, message: Message, why: Culprit) -> None:
        self._over = True
        self._refusals.append(Refusal(ticket, message, why.reason, why.hint, why.error, why.scope, ends=True))
