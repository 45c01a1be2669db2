"""Rows at least once: what waits is committed together, while the next messages come in."""

from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from time import monotonic

from walrelay.errors import WalrelayError
from walrelay.model import Message
from walrelay.sinks.group_contract import Culprit
from walrelay.sinks.hosting import Misfit, PumpedLoop, Sending
from walrelay.sinks.postgres.errors import NoRoomForGroup
from walrelay.sinks.postgres.settings import PostgresSettings
from walrelay.sinks.postgres.writer import TableWriter, TargetMemory


class PostgresConnection:
    """See `walrelay.sinks.hosting.Connection`."""

    def __init__(
        self,
        settings: PostgresSettings,
        memory: TargetMemory,
        loop: PumpedLoop,
        fail: Callable[[WalrelayError], None],
    ) -> None:
        self._loop, self._fail = loop, fail
        self._writer, self._memory = TableWriter(settings, memory), memory
        self._settings, self._patience = settings, settings.request_timeout
        self._queue: deque[Sending] = deque()
        self._writes = False
        self._began, self._group = 0.0, 0  # when the group that is written was begun, and how many it has
        self.misfit: Callable[[Message], Misfit | None] = self._writer.misfit

    async def open(self) -> None:
        await self._writer.connect()

    def send(self, sending: Sending) -> None:
        self._queue.append(sending)
        if not self._writes:
            self._writes = True
            self._loop.start(self._write())

    def push(self) -> None:
        """A group is written as soon as the one before it is."""

    def trouble(self) -> str:
        return ""

    def close(self) -> None:
        if self._writes and monotonic() - self._began >= self._patience:
            self._memory.too_many(self._group)
        self._writer.abort()

    async def _write(self) -> None:
        try:
            while self._queue:
                group = [*islice(self._queue, self._memory.at_most(self._settings.group_messages))]
                self._group = len(group)
                self._began = group[0].sent_at = monotonic()  # it may have waited for others
                try:
                    if not await self._write_group(group):
                        return  # what comes behind a refusal is not written
                except NoRoomForGroup:
                    if not self._memory.too_many(len(group)):
                        raise
            self._writes = False
        except WalrelayError as why:
            self._fail(why)

    async def _write_group(self, group: Sequence[Sending]) -> bool:
        """Whether the sink goes on."""
        messages = [sending.taken[0].message for sending in group]
        refused = await self._writer.write(messages)
        if refused is not None:
            return await self._refuse(refused, group, messages)
        self._durable(group)
        if monotonic() - self._began < self._patience / 4:
            self._memory.written(len(group))
        return True

    async def _refuse(self, refused: Culprit, group: Sequence[Sending], messages: Sequence[Message]) -> bool:
        """Writes those ahead of it, and refuses it; whether the sink goes on."""
        if refused.number:
            another = await self._writer.write(messages[: refused.number])
            if another is not None:
                return await self._refuse(another, group, messages)
            self._durable(group[: refused.number])
        (sending,) = group[refused.number : refused.number + 1]
        self._queue.popleft()
        sending.refused(*refused[1:], ends=bool(self._queue))
        return not self._queue

    def _durable(self, group: Sequence[Sending]) -> None:
        for sending in group:
            self._queue.popleft()
            sending.durable()
