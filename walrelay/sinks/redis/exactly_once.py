"""Exactly once into Redis: a script adds a group's entries and sets the relay's position, all of it or nothing.

The position is in a hash, beside the owner: the store that was fenced last. A script of any other owner changes
nothing. So a store that begins makes itself the owner and then reads the position, and nothing can be published behind
it. A store that connects again takes another name as the owner, if the hash still has the one before: then nothing that
the broken connection sent can be published behind the position either.
"""

import asyncio
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any
from uuid import uuid4

from redis.crc import key_slot
from redis.exceptions import RedisError, ResponseError

from walrelay.errors import Retryable, SinkError, Superseded, WalrelayError
from walrelay.model import Message, RelayPosition, System
from walrelay.sinks.group_contract import Culprit, GroupMemory, GroupTooLarge
from walrelay.sinks.hosting import Misfit, PumpedLoop, Sending
from walrelay.sinks.hosting.contract import Taken
from walrelay.sinks.hosting.link import LastingSelector
from walrelay.sinks.redis.client import Client, answered, said
from walrelay.sinks.redis.cluster import connected_to_master_of
from walrelay.sinks.redis.connection import ELSEWHERE, GROUP, GROUP_BYTES, NO_MEMORY, OF_A_KEY, RedisConnection
from walrelay.sinks.redis.groups import FENCED, arguments, encoded, script
from walrelay.sinks.redis.settings import RedisSettings

_STAY_OWNER = """
if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[1] then return false end
redis.call('HSET', KEYS[1], 'owner', ARGV[2])
return 1
"""


class RedisGroupSize:
    """One group at most waits while one is added: while that happens, Redis does nothing else."""

    def __init__(self, settings: RedisSettings, memory: GroupMemory) -> None:
        self._memory, self._messages = memory, max(1, min(GROUP, settings.max_in_flight // 2))
        self.bytes = min(GROUP_BYTES, settings.max_in_flight_bytes // 2)

    @property
    def messages(self) -> int:
        return self._memory.at_most(self._messages)


class OwnerConnection(RedisConnection):
    """A connection for an owner of the key. `found`: the position that the key had when it became the owner."""

    _all_or_none = True

    def __init__(
        self, settings: RedisSettings, key: str, before: bytes, loop: PumpedLoop, fail: Callable[[WalrelayError], None]
    ) -> None:
        """`before`: the owner that the connection before was for; empty: it was none."""
        super().__init__(settings, loop, fail)
        self._one_stream = True  # a group is never divided
        self._script = script(settings, exactly_once=True)
        self._key, self._before, self.owner = key, before, uuid4().hex.encode()
        self._closing: RelayPosition | None = None
        self._hash_slot = key_slot(encoded(key)) if settings.cluster else None
        self.found: RelayPosition | None = None

    async def open(self) -> None:
        await self._connect()
        await self._begin()

    async def write(self, group: Sequence[Sending], position: RelayPosition) -> None:
        """Returns when the group is there, or a sending of it was refused. Retryable where neither is known."""
        self._closing = position
        try:
            await self._publish(group)
        except ResponseError as why:
            raise Retryable(f"Redis does not do what it is asked: {why}") from why
        except (RedisError, OSError) as why:
            raise Retryable(f"the connection to Redis is gone: {said(why)}") from why

    def misfit(self, message: Message) -> Misfit | None:
        found = super().misfit(message)
        if found is not None or self._hash_slot is None:
            return found
        stream = self._stream(message)
        if key_slot(encoded(stream)) == self._hash_slot:
            return None
        return Misfit(
            f"the stream {stream!r} and the relay's position {self._key!r} have different hash slots",
            "Let sink.stream and sink.positions_key begin with the same hash tag, like {relay}.",
            "unroutable",
        )

    async def _master(self) -> Client:
        if self._hash_slot is None:
            return await super()._master()
        return await connected_to_master_of(self._settings, encoded(self._key))

    async def _begin(self) -> None:
        assert self._client is not None
        try:
            await self._check_rights(self._client)
            await self._become_owner(self._client)
            text = await self._client.ask("HGET", self._key, "position")
        except ResponseError as why:
            said = answered(why)
            if said.startswith(ELSEWHERE):
                raise Retryable(f"the Redis Cluster is moving the hash slot of {self._key!r}: {said}") from why
            if not said.startswith(("WRONGTYPE", "NOPERM")):
                raise
            raise SinkError(
                f"the key {self._key!r} for the relay's position cannot be used: {said}",
                hint=f"Grant ~{self._settings.positions_key}:* +hset +hget +xdel, or correct sink.positions_key.",
            ) from why
        if text is not None:
            self.found = self._parsed(text)
            if self._wait.wanted:  # an earlier store may have died before its last group was safe
                await self._wait_until_safe(self._client, await self._client.ask(*self._wait.command))

    async def _become_owner(self, client: Client) -> None:
        if not self._before:
            await client.ask("HSET", self._key, "owner", self.owner)
        elif await client.ask("EVAL", _STAY_OWNER, "1", self._key, self._before, self.owner) is None:
            raise Superseded(
                f"the key {self._key!r} has another owner now: another instance publishes, or Redis lost what it had"
            )

    async def _check_rights(self, client: Client) -> None:
        """A group that is not taken as a whole is undone by XDEL."""
        try:
            await client.ask("XDEL", f"{self._key}:", "0-1")
        except ResponseError as why:
            if not answered(why).startswith(ELSEWHERE):  # it may be asked, though in another hash slot
                raise

    def _parsed(self, text: bytes) -> RelayPosition:
        try:
            return RelayPosition.of_json(text)
        except (ValueError, TypeError, LookupError) as why:
            raise SinkError(
                f"the position in {self._key!r} cannot be read: {text[:100]!r}",
                hint="Something else wrote to the key. Give the relay one of its own: sink.positions_key; with"
                " `walrelay run --from-slot` it begins where the slot stands.",
            ) from why

    def _command(self, group: Sequence[Sending]) -> tuple[Any, ...]:
        assert self._closing is not None
        first = (self.owner, self._closing.as_json())
        return arguments(self._script, map(self._entry, group), last_key=encoded(self._key), first=first)

    async def _not_added(self, rest: Sequence[Sending], why: str) -> None:
        if why.startswith(FENCED):
            raise Superseded("a later run of this slot publishes now, and this one may not any more")
        if not rest:
            raise Retryable(f"the position could not be stored: {why}")
        if why.startswith(NO_MEMORY):  # a group counts as memory while it is read
            raise GroupTooLarge(f"Redis takes nothing now: {why}")
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


class RedisGroups:
    """Implements `walrelay.sinks.group_contract.GroupStore`."""

    def __init__(self, settings: RedisSettings, memory: GroupMemory, system: System, slot: str) -> None:
        self._memory, self._group = memory, 0  # how many messages
        self._settings, self._key = settings, f"{settings.positions_key}:{system.identifier}/{slot}"
        self._selector = LastingSelector()
        self._loop = PumpedLoop(self._selector)
        self._owner = b""
        self._connection = self._connect()
        self._work: asyncio.Task[None] | None = None
        self._began = 0.0
        self._fenced = self._writes = False
        self._culprit: Culprit | None = None
        self._failure: WalrelayError | None = None

    def fence(self, timeout: float) -> bool:
        if self._fenced:
            self._disconnect()
        if self._work is None:
            self._start(self._connection.open())
        self._fenced = self._is_done(timeout)
        if self._fenced:
            self._owner = self._connection.owner
        return self._fenced

    def last(self) -> RelayPosition | None:
        return self._connection.found

    def misfit(self, message: Message) -> Misfit | None:
        return self._connection.misfit(message)

    def begin(self, messages: Sequence[Message], position: RelayPosition) -> None:
        sendings = [Sending(self, None, (Taken(message, number),)) for number, message in enumerate(messages)]
        self._writes, self._group = True, len(messages)
        self._start(self._connection.write(sendings, position))

    def step(self, timeout: float) -> bool | Culprit:
        if not self._is_done(timeout) or not self._writes:
            return False
        self._writes = False
        culprit, self._culprit = self._culprit, None
        if culprit is None:
            self._memory.written(self._group)
        return culprit or True

    def descriptor(self) -> int | None:
        return self._loop.descriptor

    def trouble(self) -> str:
        return self._connection.trouble() or ("" if self._fenced else "not connected to Redis yet")

    def close(self) -> None:
        self._connection.close()
        self._loop.let_go()
        self._selector.let_go()

    def settle(self, sending: Sending) -> None:
        """The whole group is there, or nothing of it."""

    def refuse(self, sending: Sending, reason: str, hint: str, error: str, scope: str, *, ends: bool) -> None:
        self._culprit = Culprit(sending.taken[0].ticket, reason, hint, error, scope)

    def put_off(self, sending: Sending, why: str) -> None:
        self.fail(Retryable(why))

    def fail(self, why: WalrelayError) -> None:
        self._failure = self._failure or why

    def _connect(self) -> OwnerConnection:
        return OwnerConnection(self._settings, self._key, self._owner, self._loop, self.fail)

    def _disconnect(self) -> None:
        """A new connection takes the place of one that is of no use."""
        self._connection.close()
        self._loop.let_go()
        self._loop = PumpedLoop(self._selector)
        self._connection = self._connect()
        self._work, self._culprit, self._failure, self._fenced, self._writes = None, None, None, False, False

    def _start(self, work: Any) -> None:
        self._began = monotonic()
        self._work = self._loop.create_task(work)
        self._work.add_done_callback(lambda _: self._loop.wake())

    def _is_done(self, timeout: float) -> bool:
        """Whether the work is. Raises what it ended in."""
        work = self._work
        self._loop.pump(0 if work is not None and work.done() else timeout)
        if work is None:
            return False
        if not work.done():
            if self._connection.trouble():
                self._began = monotonic()  # Redis has said why it does not answer
            if monotonic() - self._began <= self._settings.request_timeout:
                return False
            self._failure = Retryable(f"Redis has not answered for {self._settings.request_timeout:g} s")
        else:
            self._work = None
            self._failure = self._failure or _error_of(work)
        if (failure := self._failure) is not None:
            self._disconnect()
            raise self._translated(failure)
        return True

    def _translated(self, failure: WalrelayError) -> WalrelayError:
        if not isinstance(failure, GroupTooLarge):
            return failure
        kind = GroupTooLarge if self._memory.too_many(self._group) else Retryable
        return kind(f"{failure}, for a group of {self._group} messages")


def _error_of(work: asyncio.Task[None]) -> WalrelayError | None:
    try:
        work.result()
    except WalrelayError as why:
        return why
    except Exception as why:
        return Retryable(f"Redis cannot be reached: {type(why).__name__}: {why}")
    return None
