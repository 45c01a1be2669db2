"""Exactly once into a stream that nobody else writes to: a chain of messages, and a position behind each group.

JetStream has no transactions, so a group that is interrupted is there in part. What makes up for it: the stream has no
gap at any time, since each message names the one before it; the position names the last message before it; and what is
behind that, the next run finds and does not send again. The first message of a run names the number of the one that was
the last when the run looked: so whatever an earlier run still sends comes before that, or is refused.
"""

import asyncio
from collections.abc import Callable, Sequence
from hashlib import blake2b
from time import monotonic
from typing import Any
from uuid import uuid4

from walrelay.errors import Retryable, SinkError, WalrelayError
from walrelay.model import Message, RelayPosition, System
from walrelay.sinks.group_contract import Culprit, PartlyWritten
from walrelay.sinks.hosting import Misfit, PumpedLoop, Sending
from walrelay.sinks.hosting.contract import Taken
from walrelay.sinks.hosting.link import LastingSelector
from walrelay.sinks.nats.api import NO_MESSAGE, STREAM_NOT_FOUND, ApiError, ask
from walrelay.sinks.nats.connection import ID, NatsConnection
from walrelay.sinks.nats.messages import Outgoing
from walrelay.sinks.nats.positions import Covered, PositionSubject
from walrelay.sinks.nats.settings import NatsSettings
from walrelay.sinks.nats.tail import Stored, StreamTail, content_of

_FENCE_WAIT = 0.5  # seconds
_AT_ONCE = 100  # messages of the stream that are asked for together


class ChainedConnection(NatsConnection):
    """Its messages have ids that no other message has: a repetition within the stream's window would not be stored."""

    def __init__(
        self, settings: NatsSettings, ids: str, loop: PumpedLoop, fail: Callable[[WalrelayError], None]
    ) -> None:
        super().__init__(settings.model_copy(update={"ordering": "chained"}), loop, fail)
        self._ids, self._count = f"{ids}{uuid4().hex[:12]}", 0
        self._message_id = self._next_id

    def begin_behind(self, sequence: int) -> None:
        """The first message is stored only if that is the number of the stream's last."""
        self._before = self.sequence = sequence

    def take(self, message: Message) -> Outgoing:
        """Of a message that is not to be sent."""
        return self._prepared.take(message).outgoing

    def look(self, message: Message) -> Outgoing | Misfit:
        """Of a message that is to be sent next, also where an earlier connection was to send it."""
        if message not in self._prepared and (misfit := self.misfit(message)) is not None:
            return misfit
        return self._prepared.look(message).outgoing

    def _next_id(self, outgoing: Outgoing) -> str:
        self._count += 1
        return f"{self._ids}.{self._count}"


class NatsGroups:
    """Implements `walrelay.sinks.group_contract.GroupStore`. `publishes` False: it is about the position alone.

    `acknowledged`: what the stream has acknowledged behind the last position, by number; the stores of one relay share
    it.
    """

    def __init__(
        self,
        settings: NatsSettings,
        system: System,
        slot: str,
        acknowledged: dict[int, bytes] | None = None,
        *,
        publishes: bool = True,
    ) -> None:
        self._settings, self._publishes, self._system, self._slot = settings, publishes, system, slot
        of_slot = blake2b(f"{system.identifier}/{slot}".encode(), digest_size=8).hexdigest()
        self._ids = f"{of_slot}-"  # how the ids of this slot's messages begin
        self._owner, self._fenced = uuid4().hex, False  # `fenced`: ever
        self._selector = LastingSelector()
        self._loop = PumpedLoop(self._selector)
        self._connections = 0  # that were made
        self._connection = self._connect()
        self._work: asyncio.Task[None] | None = None
        self._positions: PositionSubject | None = None  # once fenced
        self._found, self._end = Covered(None, 0), 0
        self._tail = StreamTail()
        self._acknowledged = {} if acknowledged is None else acknowledged
        self._moves = False  # something was acknowledged since the group was begun
        self._sent: set[Sending] = set()  # and not answered
        self._covered = 0  # the number of the last message that is there
        self._position: RelayPosition | None = None  # of the group that is written
        self._heard_at = 0.0
        self._culprit: Culprit | None = None
        self._failure: WalrelayError | None = None

    def fence(self, timeout: float) -> bool:
        if self._positions is not None:
            self._disconnect()
        if self._work is None:
            self._start(self._fence(self._connection))
        self._loop.pump(timeout)
        self._raise_failure()
        return self._is_done()

    def last(self) -> RelayPosition | None:
        if self._publishes and self._found.sequence > self._end:
            raise SinkError(
                f"stream {self._settings.stream!r} ends at message {self._end}, and the relay published up to"
                f" {self._found.sequence}: it lost messages, or was made again",
                hint="`walrelay run --from-slot` goes on where the slot is; `walrelay replay` publishes rows again.",
            )
        return self._found.position

    def misfit(self, message: Message) -> Misfit | None:
        return self._connection.misfit(message)

    def begin(self, messages: Sequence[Message], position: RelayPosition) -> None:
        self._position, self._heard_at, self._moves = position, monotonic(), False
        for number, message in enumerate(messages):
            outgoing = self._connection.look(message)
            if isinstance(outgoing, Misfit):
                self._culprit = Culprit(number, *outgoing)
                return
            if there := self._tail.has(outgoing):
                self._connection.take(message)
                self._covered = there
                continue
            sending = Sending(self, None, (Taken(message, number),))
            self._sent.add(sending)
            self._connection.send(sending)
            if self._culprit is not None:
                return  # nothing is sent behind it
        self._keep_if_there()

    def step(self, timeout: float) -> bool | Culprit:
        told = self._culprit or self._failure or (self._work is not None and self._work.done())
        self._loop.pump(0 if told else timeout)
        if self._culprit is not None:
            culprit, self._culprit, self._position = self._culprit, None, None
            return culprit
        self._raise_failure()
        if self._position is None:
            return False
        if self._is_done():
            self._position = None
            self._acknowledged.clear()
            return True
        if monotonic() - self._heard_at > self._settings.request_timeout:
            self._disconnect()
            raise Retryable(f"NATS has not answered for {self._settings.request_timeout:g} s to a group")
        return False

    def descriptor(self) -> int | None:
        return self._loop.descriptor

    def trouble(self) -> str:
        return self._connection.trouble() or ("" if self._positions is not None else "not connected to NATS yet")

    def close(self) -> None:
        self._failure = self._failure or Retryable("the sink is closed")
        self._connection.close()
        self._loop.let_go()
        self._selector.let_go()

    def settle(self, sending: Sending) -> None:
        if sending not in self._sent:
            return  # an earlier connection sent it
        self._sent.remove(sending)
        self._heard_at = monotonic()
        self._covered, self._moves = self._connection.sequence, True
        (made,) = sending.prepared
        self._acknowledged[self._covered] = content_of(made.outgoing)
        self._keep_if_there()

    def refuse(self, sending: Sending, reason: str, hint: str, error: str, scope: str, *, ends: bool) -> None:
        if self._culprit is None and self._failure is None and sending in self._sent:
            self._culprit = Culprit(sending.taken[0].ticket, reason, hint, error, scope)
            self._loop.wake()

    def put_off(self, sending: Sending, why: str) -> None:
        self.fail(Retryable(why))

    def fail(self, why: WalrelayError) -> None:
        if self._moves and type(why) is Retryable:
            why = PartlyWritten(str(why))
        self._failure = self._failure or why
        self._loop.wake()

    def _connect(self) -> ChainedConnection:
        number = self._connections = self._connections + 1

        def fail(why: WalrelayError) -> None:
            if number == self._connections:
                self.fail(why)

        return ChainedConnection(self._settings, self._ids, self._loop, fail)

    def _disconnect(self) -> None:
        """A new connection takes the place of one that is of no use; nothing that it still says counts."""
        self._connection.close()
        self._loop.let_go()
        self._loop = PumpedLoop(self._selector)
        self._connection = self._connect()
        self._work, self._positions, self._position, self._culprit, self._failure = None, None, None, None, None
        self._sent.clear()

    def _raise_failure(self) -> None:
        if (failure := self._failure) is not None:
            self._disconnect()
            raise failure

    def _keep_if_there(self) -> None:
        if not self._sent and self._position is not None and self._failure is None and self._culprit is None:
            assert self._positions is not None, "not fenced"
            self._start(self._positions.write(Covered(self._position, self._covered)))

    def _start(self, work: Any) -> None:
        self._work = self._loop.create_task(work)
        self._work.add_done_callback(lambda _: self._loop.wake())

    def _is_done(self) -> bool:
        work = self._work
        if work is None or not work.done():
            return False
        self._work = None
        try:
            work.result()
            return True
        except WalrelayError as why:
            failure = why
        except ApiError as why:
            failure = Retryable(f"NATS cannot keep the position: {why}")
        except TimeoutError:
            failure = Retryable(f"NATS has not answered for {self._settings.request_timeout:g} s")
        except Exception as why:
            failure = Retryable(f"NATS cannot be reached: {type(why).__name__}: {why}")
        self._disconnect()
        raise failure

    async def _fence(self, connection: ChainedConnection) -> None:
        stream = self._settings.stream
        async with asyncio.timeout(self._settings.request_timeout) as limit:
            await connection.open()
            where = self._settings.positions_stream, self._system, self._slot
            positions = PositionSubject(connection.client, *where, self._owner)
            end, replicas = await self._look() if stream is not None else (0, 1)
            self._found = await positions.take(Covered(None, end), replicas, again=self._fenced)
            self._fenced = True
            self._covered = self._end = end
            if self._publishes:
                self._end, _ = await self._look()  # an earlier run may have published meanwhile
                stored = await self._stored(self._found.sequence + 1, self._end, limit)
                for number in [*self._acknowledged]:
                    if not self._found.sequence < number <= self._end:  # it is covered, or the stream was made again
                        del self._acknowledged[number]
                self._tail = StreamTail(stored, self._acknowledged)
                self._covered = min(self._found.sequence, self._end)
                connection.begin_behind(self._end)
        self._positions = positions

    async def _look(self) -> tuple[int, int]:
        """The number of the stream's last message, and how many replicas it has."""
        stream = self._settings.stream
        try:
            answer = await ask(self._connection.client, f"STREAM.INFO.{stream}")
        except ApiError as why:
            if why.code != STREAM_NOT_FOUND:
                raise
            raise SinkError(f"stream {stream!r} does not exist", hint="walrelay init --topics") from why
        return answer["state"]["last_seq"], answer["config"].get("num_replicas", 1)

    async def _stored(self, first: int, last: int, limit: asyncio.Timeout) -> list[Stored]:
        """The relay's own messages between these numbers. There may be many, after a time without positions: `limit` is
        that of an answer.
        """
        found = []
        for begin in range(first, last + 1, _AT_ONCE):
            numbers = range(begin, min(begin + _AT_ONCE, last + 1))
            for each in await asyncio.gather(*map(self._message, numbers)):
                if each is not None and each.headers.get(ID, "").startswith(self._ids):
                    found.append(each)
            limit.reschedule(asyncio.get_running_loop().time() + self._settings.request_timeout)
        return found

    async def _message(self, sequence: int) -> Stored | None:
        try:
            answer = await ask(self._connection.client, f"STREAM.MSG.GET.{self._settings.stream}", seq=sequence)
        except ApiError as why:
            if why.code != NO_MESSAGE:
                raise
            return None  # the stream keeps it no longer
        return Stored.of_answer(answer["message"])
