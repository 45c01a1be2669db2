"""One connection to Redis: messages go in groups, one at a time, and what Redis's answers mean for each message.

What is published while a group is on its way becomes the next one; so the groups are as large as the answers are slow.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from hiredis import pack_command
from redis.exceptions import RedisError, ResponseError

from walrelay.errors import Retryable, SinkError, WalrelayError
from walrelay.model import Message
from walrelay.sinks.address import AddressTemplate, NoAddress
from walrelay.sinks.hosting import Misfit, PumpedLoop, Sending
from walrelay.sinks.hosting.circuit import backed_off
from walrelay.sinks.making import init_topics
from walrelay.sinks.redis.client import CLUSTER_RIGHTS, Client, answered, connected, said
from walrelay.sinks.redis.groups import HEADERS, NAME, NO_STREAM, Entry, arguments, encoded, fields_of, script
from walrelay.sinks.redis.settings import RedisSettings
from walrelay.sinks.redis.waiting import Wait, check_append_only_file

GROUP = 500  # messages: while they are added, Redis does nothing else
GROUP_BYTES = 2**20
_BULK = 512 * 2**20  # bytes of one value, unless proto-max-bulk-len says something else
NO_MEMORY = "OOM"
_NO_ROOM = ("BUSY", "MISCONF", "NOREPLICAS", NO_MEMORY)  # this server may take it later
_NOT_HERE = ("CLUSTERDOWN", "LOADING", "MASTERDOWN", "NOAUTH", "READONLY")  # another may, or a new connection
ELSEWHERE = ("MOVED", "ASK", "CROSSSLOT", "TRYAGAIN")
_RIGHTS = "ACL SETUSER {user} ~{stream} +eval +xadd +info +config|get"
_IN_SCRIPT, OF_A_KEY = "executing the script can't", " key"  # parts of what Redis says of rights


class RedisConnection:
    """See `walrelay.sinks.hosting.HostedConnection`. Durable is what Redis has answered, and what is where the
    settings wait for it.
    """

    _all_or_none = False  # of a group
    _names_streams = False  # whether it is always known which stream Redis's answer is about

    def __init__(self, settings: RedisSettings, loop: PumpedLoop, fail: Callable[[WalrelayError], None]) -> None:
        self._settings, self._loop, self._fail = settings, loop, fail
        self._stream = AddressTemplate(settings.stream)
        self._own_fields = {settings.key_field, settings.value_field}
        self._script = script(settings)
        self._wait = Wait(settings)
        self._queue: deque[Sending] = deque()
        self._wanted = asyncio.Event()
        self._client: Client | None = None
        self._largest = _BULK
        self._one_stream = False  # a group: so that Redis's answer says which stream it is about
        self._trouble = ""
        self._vain = 0  # groups in a row of which Redis took nothing
        self._most = GROUP  # messages of the next group
        self._over = False  # nothing may follow what was refused

    async def open(self) -> None:
        await self._connect()
        await self._begin()
        self._loop.start(self._converse())

    async def _connect(self) -> None:
        self._client = await self._master()
        self._largest = await self._prepare(self._client)

    async def _master(self) -> Client:
        return await connected(self._settings)

    async def _prepare(self, client: Client) -> int:
        """How many bytes it takes in a field. Raises what keeps us from publishing there."""
        if self._settings.wait_aof:
            await check_append_only_file(client)
        return int(await client.setting("proto-max-bulk-len") or _BULK)

    async def _begin(self) -> None:
        """Before the first group."""

    def send(self, sending: Sending) -> None:
        self._queue.append(sending)

    def push(self) -> None:
        if self._queue:
            self._wanted.set()

    def misfit(self, message: Message) -> Misfit | None:
        try:
            if not self._stream(message):
                return Misfit("the stream's name is empty", "Correct sink.stream, or the event.", "unroutable")
        except NoAddress as why:
            return Misfit(str(why), "Correct sink.stream, or the event.", "unroutable")
        if len(message.headers) > HEADERS:
            return Misfit(f"{len(message.headers)} headers are more than {HEADERS}", "Remove headers.")
        for name, value in message.headers:
            if value is None:
                return Misfit(f"the header {name!r} is null, and a field of Redis cannot be", "Leave the header out.")
            if len(name) > NAME:
                return Misfit(f"the header {name[:20]!r}... has a name of {len(name)} characters", "Shorten it.")
            if name in self._own_fields:
                return Misfit(
                    f"the header {name!r} has the name of the field for the message's own",
                    "Rename the header, or set sink.key_field or sink.value_field.",
                )
        return self._too_large(message)

    def _too_large(self, message: Message) -> Misfit | None:
        largest = max(len(message.key or b""), len(message.value or b""))
        for _, value in message.headers:
            if value is not None and len(value) > largest:
                largest = len(value)
        if largest <= self._largest:
            return None
        return Misfit(
            f"it has {largest} bytes in a field, and Redis takes {self._largest} (proto-max-bulk-len)",
            "Raise proto-max-bulk-len, or make the event smaller.",
        )

    def trouble(self) -> str:
        return self._trouble

    def close(self) -> None:
        """The loop aborts the connection."""

    async def _converse(self) -> None:
        try:
            while not self._over:
                if (group := self._next_group()) is not None:
                    await self._publish(group)
                elif not self._over:
                    self._wanted.clear()
                    await self._wanted.wait()
        except WalrelayError as why:
            self._fail(why)
        except ResponseError as why:
            self._fail(Retryable(f"Redis does not do what it is asked: {why}"))
        except (RedisError, OSError) as why:
            self._fail(Retryable(f"the connection to Redis is gone: {said(why)}"))

    def _next_group(self) -> list[Sending] | None:
        """What is sent next, None for nothing yet; what is left stays in the queue."""
        group: list[Sending] = []
        size, stream = 0, None
        while self._queue and len(group) < self._most and size < GROUP_BYTES:
            message = self._queue[0].taken[0].message
            if self._one_stream and stream not in (None, self._stream(message)):
                break
            stream = self._stream(message)
            if self._largest < _BULK and (misfit := self._too_large(message)) is not None:  # since it is connected
                if not group:
                    reason, hint, error = misfit
                    self._queue.popleft().refused(reason, hint, error)
                    self._over = bool(self._queue)
                break
            size += len(message.value or b"")
            group.append(self._queue.popleft())
        return group or None

    async def _publish(self, group: Sequence[Sending]) -> None:
        assert self._client is not None
        waits = self._wait.wanted
        await self._client.send([packed(self._command(group)), packed(self._wait.command) if waits else b""])
        done, why = await self._added(self._client)
        if waits:
            await self._wait_until_safe(self._client, await self._client.answer())
        if not why:
            self._trouble, self._vain = "", 0
        for sending in group if not why else () if self._all_or_none else group[:done]:
            sending.durable()
        if why:
            self._vain = 0 if done else self._vain
            await self._not_added(group[done:], why)

    async def _wait_until_safe(self, client: Client, answer: Any) -> None:
        """`answer`: the first one to the command that waits."""
        while lacking := self._wait.lacking(answer):
            self._trouble = lacking
            answer = await client.ask(*self._wait.command)
        self._trouble = ""

    async def _added(self, client: Client) -> tuple[int, str]:
        """How many of the group were, and why not the next."""
        try:
            answer = await client.answer()
        except ResponseError as why:  # Redis did not run the script
            return 0, answered(why)
        return answer[0], answer[1].decode(errors="replace") if len(answer) > 1 else ""

    def _command(self, group: Sequence[Sending]) -> tuple[Any, ...]:
        return arguments(self._script, map(self._entry, group))

    def _entry(self, sending: Sending) -> Entry:
        message = sending.taken[0].message
        fields = fields_of(message, self._settings.key_field, self._settings.value_field)
        return Entry(encoded(self._stream(message)), fields)

    async def _not_added(self, rest: Sequence[Sending], why: str) -> None:
        """The first of the rest was refused, and those behind it were not looked at."""
        first, code = rest[0], why.partition(" ")[0]
        if code == "NOPERM" and OF_A_KEY in why and not (self._one_stream or self._names_streams):
            self._one_stream = True
            self._queue.extendleft(reversed(rest))
            return
        if code in _NO_ROOM and not self._all_or_none:
            await self._try_again(rest, f"Redis takes nothing now: {why}")
            return
        self._over = True
        if code in _NO_ROOM + _NOT_HERE:
            first.failed(f"Redis takes nothing now: {why}")
        elif code in ELSEWHERE and self._settings.cluster:
            first.failed(f"the Redis Cluster is moving the hash slot: {why}")
        elif code in ELSEWHERE:
            self._fail(SinkError(f"this is a Redis Cluster: {why}", hint="Set sink.cluster."))
        else:
            self._over = self._all_or_none or len(rest) > 1 or bool(self._queue)
            self._refuse(first, code, why, ends=self._all_or_none)

    async def _try_again(self, rest: Sequence[Sending], why: str) -> None:
        """After a pause, and ahead of all that came behind it."""
        self._queue.extendleft(reversed(rest))
        self._trouble = why
        self._vain += 1
        self._most = max(1, self._most // 8)  # what is sent takes up memory, too
        await asyncio.sleep(backed_off(self._vain))

    def _refuse(self, sending: Sending, code: str, why: str, *, ends: bool) -> None:
        stream = self._stream(sending.taken[0].message)
        user = self._settings.servers[0].username or "default"
        if code == NO_STREAM:
            command = init_topics(sending.taken[0].message.topic, exact=True)
            hint = f"{command or 'Make it'} (or set sink.create_streams)."
            sending.refused(f"there is no stream {stream!r}", hint, "unknown_topic", "topic", ends=ends)
        elif code == "WRONGTYPE":
            hint = "Rename the key, or correct sink.stream."
            sending.refused(f"the key {stream!r} holds no stream", hint, "unknown_topic", "topic", ends=ends)
        elif code == "NOPERM" or _IN_SCRIPT in why:
            scope = "topic" if OF_A_KEY in why else "sink"
            hint = _RIGHTS.format(user=user, stream=stream) + (CLUSTER_RIGHTS if self._settings.cluster else "")
            reason = f"the user {user!r} may not add to the stream {stream!r}: {why}"
            sending.refused(reason, hint, "not_authorized", scope, ends=ends)
        elif "last possible ID" in why or "equal or smaller than the target stream top item" in why:
            hint = "The stream's last id is the largest there is: rename or delete the stream, or correct sink.stream."
            sending.refused(f"the stream {stream!r} takes no more entries: {why}", hint, "refused", "topic", ends=ends)
        else:
            hint = "Look for the message at this position."
            sending.refused(f"Redis refused it for the stream {stream!r}: {why}", hint, ends=ends)


def packed(command: tuple[Any, ...]) -> bytes:
    """As it is sent."""
    made: bytes = pack_command(command)
    return made
