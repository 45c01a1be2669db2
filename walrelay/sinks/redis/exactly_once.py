"""Exactly once into Redis: a script adds a group's entries and sets the relay's position, all of it or nothing.

The position is in a hash, beside the owner: the run that began last. A script of any other run changes nothing. So a
run that begins makes itself the owner and then reads the position, and nothing can be published behind it.

A group ends at the end of a transaction. One that fills the sink, or takes long, is cut: the position then names the
last record that was published, and the next run goes on behind it.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from time import monotonic
from typing import Any
from uuid import uuid4

from redis.crc import key_slot
from redis.exceptions import ResponseError

from walrelay.errors import Fatal, Retryable, WalrelayError
from walrelay.lsn import LSN, ZERO
from walrelay.model import Counting, LatestCommit, Message, Receipt, Refusal, RelayPosition, System
from walrelay.sinks.hosting import HostedSink, Misfit, PumpedLoop, RefusalMemory, Sending
from walrelay.sinks.redis.client import Client, answered
from walrelay.sinks.redis.cluster import connected_to_master_of
from walrelay.sinks.redis.connection import ELSEWHERE, GROUP, GROUP_BYTES, OF_A_KEY, RedisConnection
from walrelay.sinks.redis.groups import arguments, encoded, script
from walrelay.sinks.redis.settings import RedisSettings

_FENCE = 1.0  # seconds
_KEEP = 1.0  # seconds
_BEGIN = 30.0  # seconds


class GuardedConnection(RedisConnection):
    """Sends what is marked, with its position. `found`: the position that the hash had; `durable`: the last one."""

    _all_or_none = True

    def __init__(
        self,
        settings: RedisSettings,
        nothing: RelayPosition,
        loop: PumpedLoop,
        fail: Callable[[WalrelayError], None],
    ) -> None:
        super().__init__(settings, loop, fail)
        self._one_stream = True  # a group is never divided
        self._script = script(settings, exactly_once=True)
        self.key = f"{settings.positions_key}:{nothing.system.identifier}/{nothing.slot}"
        self._owner = uuid4().hex.encode()
        self._handed = self._gone = 0  # messages that came, and that groups took
        self._marks: deque[tuple[int, RelayPosition]] = deque()  # how many messages had come, and the position then
        self._closing = self.durable = nothing
        self.found: RelayPosition | None = None
        self._keeps = False
        self._hash_slot = key_slot(encoded(self.key)) if settings.cluster else None

    async def _master(self) -> Client:
        if self._hash_slot is None:
            return await super()._master()
        return await connected_to_master_of(self._settings, encoded(self.key))

    def misfit(self, message: Message) -> Misfit | None:
        found = super().misfit(message)
        if found is not None or self._hash_slot is None:
            return found
        stream = self._stream(message)
        if key_slot(encoded(stream)) == self._hash_slot:
            return None
        return Misfit(
            f"the stream {stream!r} and the relay's position {self.key!r} have different hash slots",
            "Let sink.stream and sink.positions_key begin with the same hash tag, like {relay}.",
            "unroutable",
        )

    async def _begin(self) -> None:
        assert self._client is not None
        try:
            await self._check_rights(self._client)
            await self._client.ask("HSET", self.key, "owner", self._owner)
            text = await self._client.ask("HGET", self.key, "position")
        except ResponseError as why:
            said = answered(why)
            if said.startswith(ELSEWHERE):
                raise Retryable(f"the Redis Cluster is moving the hash slot of {self.key!r}: {said}") from why
            if not said.startswith(("WRONGTYPE", "NOPERM")):
                raise
            raise Fatal(
                f"the key {self.key!r} for the relay's position cannot be used: {said}",
                hint=f"Grant ~{self._settings.positions_key}:* +hset +hget +xdel, or correct sink.positions_key.",
            ) from why
        if text is not None:
            self.found = self._parsed(text)
            if self._wait.wanted:  # an earlier run may have died before its last group was safe
                await self._wait_until_safe(self._client, await self._client.ask(*self._wait.command))

    async def _check_rights(self, client: Client) -> None:
        """A group that is not taken as a whole is undone by XDEL."""
        try:
            await client.ask("XDEL", f"{self.key}:", "0-1")
        except ResponseError as why:
            if not answered(why).startswith(ELSEWHERE):  # it may be asked, though in another hash slot
                raise

    def _parsed(self, text: bytes) -> RelayPosition:
        try:
            return RelayPosition.of_json(text)
        except (ValueError, TypeError, LookupError) as why:
            raise Fatal(
                f"the position in {self.key!r} cannot be read: {text[:100]!r}",
                hint="Something else wrote to the key. Give the relay one of its own: sink.positions_key; with"
                " `walrelay run --from-slot` it begins where the slot stands.",
            ) from why

    def send(self, sending: Sending) -> None:
        self._handed += 1
        super().send(sending)

    def push(self) -> None:
        if self._queue or self._keeps:
            self._wanted.set()

    def mark(self, position: RelayPosition, *, keep: bool = False) -> None:
        """A group may end behind what has come so far. `keep`: it does, even if it has no messages."""
        if self._marks and self._marks[-1][0] == self._handed:
            self._marks.pop()
        self._marks.append((self._handed, position))
        self._keeps |= keep

    def stop(self) -> None:
        """Nothing more is sent."""
        self._over = True

    def _next_group(self) -> list[Sending] | None:
        count, closing = 0, None
        while self._marks:
            handed, position = self._marks[0]
            if handed - self._gone > (GROUP if count else self._handed):
                break
            count, closing = handed - self._gone, position
            self._marks.popleft()
        if closing is None:
            return None
        if count == 0 and not self._keeps:
            self._marks.appendleft((self._gone, closing))
            return None
        self._closing, self._keeps = closing, False
        self._gone += count
        return [self._queue.popleft() for _ in range(count)]

    def _command(self, group: Sequence[Sending]) -> tuple[Any, ...]:
        first = (self._owner, self._closing.as_json())
        return arguments(self._script, map(self._entry, group), last_key=encoded(self.key), first=first)

    def _stored(self) -> None:
        self.durable = self._closing
        self._loop.wake()

    async def _not_added(self, rest: Sequence[Sending], why: str) -> None:
        if not rest:
            self._fail(Retryable(f"the position could not be stored: {why}"))
            return
        forbidden = await self._forbidden(rest) if why.startswith("NOPERM") and OF_A_KEY in why else 0
        await super()._not_added(rest[forbidden:], why)

    async def _forbidden(self, rest: Sequence[Sending]) -> int:
        """The first that is for a stream that the user may not write to: Redis does not say which of the keys it is."""
        assert self._client is not None
        streams: dict[bytes, int] = {}
        for number, sending in enumerate(rest):
            streams.setdefault(self._entry(sending).stream, number)
        for stream, number in streams.items():
            try:
                await self._client.ask("EVAL", "return 1", "1", stream)
            except ResponseError:
                return number
        return 0


class RedisExactlyOnce(HostedSink):
    """Implements `walrelay.publish.ExactlyOnceSink`."""

    def __init__(self, settings: RedisSettings, system: System, slot: str, counting: Counting | None = None) -> None:
        self._position = RelayPosition(system, slot, ZERO)
        self._counting = counting
        self._unmarked = self._unmarked_bytes = 0
        self._unmarked_since = monotonic()
        self._patience = settings.request_timeout / 3  # seconds that a message may wait for the end of its transaction
        self._found_no_room = False

        def connect(loop: PumpedLoop, fail: Callable[[WalrelayError], None]) -> GuardedConnection:
            self._guarded = GuardedConnection(settings, self._position, loop, fail)
            return self._guarded

        # Earlier refusals are no reason for care: the answer to a group names its message, and the group is not there.
        super().__init__(connect, settings.window, RefusalMemory(), "Redis", lane_of=None, reconnects=False)

    def fence(self) -> bool:
        deadline = monotonic() + _FENCE
        while not self._connected and self._failure is None and (left := deadline - monotonic()) > 0:
            self._pump(left)
        if self._failure is not None:
            raise self._failure
        return self._connected

    def last(self) -> RelayPosition | None:
        return self._guarded.found  # no floor: a server that was set back has its next position before it

    def read_up_to(self, latest: LatestCommit) -> None:
        self._position = self._position._replace(latest=latest)

    def publish(self, message: Message, ticket: int) -> bool:
        taken = super().publish(message, ticket)
        self._found_no_room = not taken
        if not self._unmarked:
            self._unmarked_since = monotonic()
        self._unmarked += 1
        self._unmarked_bytes += len(message.value or b"")
        return taken

    def mark(self, end_lsn: LSN, commit_lsn: LSN = ZERO, ordinal: int = 0, *, over: bool = False) -> None:
        if self._refusals or self._over:
            return  # the position must not get past what was refused
        inside = (commit_lsn, ordinal, self._counting) if ordinal else (ZERO, 0, None)
        self._position = self._position._replace(
            lsn=end_lsn, commit_lsn=inside[0], ordinal=inside[1], counted=inside[2]
        )
        if not ordinal or over or self._found_no_room or self._is_long:
            self._unmarked = self._unmarked_bytes = 0
            self._guarded.mark(self._position)

    @property
    def _is_long(self) -> bool:
        """Whether a transaction is to be cut here."""
        return (
            self._unmarked >= GROUP
            or self._unmarked_bytes >= GROUP_BYTES
            or (self._unmarked > 0 and monotonic() - self._unmarked_since > self._patience)
        )

    def keep(self, position: RelayPosition) -> LSN:
        latest = position.latest or self._position.latest
        self._position = self._position._replace(xmin=position.xmin, latest=latest)
        guarded = self._guarded
        if position.lsn > guarded.durable.lsn and not self._in_flight and not self._refusals and not self._over:
            commit_lsn, ordinal = self._position.commit_lsn, self._position.ordinal
            cut = (commit_lsn, ordinal) if commit_lsn >= position.lsn else (ZERO, 0)  # its first part is published
            self.mark(position.lsn, *cut)
            guarded.mark(self._position, keep=True)
            deadline = monotonic() + _KEEP
            while guarded.durable.lsn < position.lsn and self._failure is None and (left := deadline - monotonic()) > 0:
                self._pump(left)
        return guarded.durable.lsn

    def receipts(self, timeout: float) -> Iterable[Receipt | Refusal]:
        """After a refusal nothing is sent: a later group's position would be past it."""
        told = [*super().receipts(timeout)]
        if not any(isinstance(each, Refusal) for each in told):
            return told
        self._guarded.stop()
        self._over = True
        return [each._replace(ends=True) if isinstance(each, Refusal) else each for each in told]


class RedisPositionKeeper:
    """Implements `walrelay.publish.contract.PositionKeeper`: a relay's position with `delivery: at_least_once`."""

    def __init__(self, settings: RedisSettings, system: System, slot: str) -> None:
        self._sink = RedisExactlyOnce(settings, system, slot)

    def fence(self) -> bool:
        return self._sink.fence()

    def trouble(self) -> str:
        return self._sink.trouble()

    def last(self) -> RelayPosition | None:
        deadline = monotonic() + _BEGIN
        while not self.fence():
            if monotonic() > deadline:
                raise Retryable(f"the position could not be read from Redis: {self.trouble()}")
        return self._sink.last()

    def keep(self, position: RelayPosition) -> LSN:
        if not self.fence():
            return ZERO
        kept = self._sink.keep(position)
        if kept < position.lsn:
            list(self._sink.receipts(0))  # there are none; raises what broke
        return kept
