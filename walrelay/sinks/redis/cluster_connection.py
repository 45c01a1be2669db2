"""Publishing to a Redis Cluster: messages go in rounds, and the masters get their parts of one at the same time.

A part is for one stream, and a script adds it up to the first entry that Redis does not take. The next round is sent
when all of this one is answered, so the order of a stream is kept wherever its hash slot moves meanwhile: a node that
does not have the slot runs no script, and says who has it.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from redis.exceptions import ResponseError

from walrelay.errors import Retryable, WalrelayError
from walrelay.sinks.hosting import PumpedLoop, Sending, lane_of_key
from walrelay.sinks.redis.client import Client, answered, said
from walrelay.sinks.redis.cluster import AWAY, ClusterNodes, cluster_of, redirected
from walrelay.sinks.redis.connection import GROUP, RedisConnection, packed
from walrelay.sinks.redis.groups import arguments, encoded
from walrelay.sinks.redis.settings import Address, RedisSettings

_PAUSES = (0, 0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1)
"""Seconds before each attempt: nodes do not hear of a hash slot that moved at the same moment."""

_ASKING = packed(("ASKING",))


class _Part:
    """Of a round: what is for one stream. `address`: where it is sent next."""

    def __init__(self, stream: bytes, address: Address) -> None:
        self.stream, self.address, self.asking = stream, address, False
        self.sendings: list[Sending] = []
        self.why = ""  # the rest was not added

    def sent_on(self) -> bool:
        """Whether Redis said that another node has the stream, which is then the next address."""
        code = self.why.partition(" ")[0]
        self.asking = code == "ASK"
        if code in ("ASK", "MOVED"):
            self.address = redirected(self.why, self.address)
        return code in ("ASK", "MOVED", "TRYAGAIN")


class ClusterConnection(RedisConnection):
    """See `RedisConnection`; the order is that of each stream, and of each key."""

    _names_streams = True

    def __init__(self, settings: RedisSettings, loop: PumpedLoop, fail: Callable[[WalrelayError], None]) -> None:
        super().__init__(settings, loop, fail)
        self._cluster: ClusterNodes | None = None
        self._by_header = "{header." in settings.stream  # messages of one key may be for several streams

    async def _connect(self) -> None:
        """To all masters that can be reached: the others may have nothing to do with our streams."""
        self._cluster = cluster = await cluster_of(self._settings)
        for told in await asyncio.gather(*map(self._reach, cluster.masters), return_exceptions=True):
            if isinstance(told, int):
                self._largest = min(self._largest, told)
            elif not isinstance(told, AWAY):
                raise told

    async def _reach(self, address: Address) -> int:
        assert self._cluster is not None
        return await self._prepare(await self._cluster.client(address))

    async def _reached(self, address: Address) -> Client:
        """A node that was away when the run began, or came later, is asked what the others were asked then."""
        assert self._cluster is not None
        if (found := self._cluster.connected(address)) is None:
            try:
                largest = await self._reach(address)
                found = await self._cluster.client(address)
            except AWAY as why:
                raise Retryable(f"Redis cannot be reached: {address}: {said(why)}") from why
            if largest < self._largest:  # what is to be sent now may be larger
                raise Retryable(f"{address} takes no more than {largest} bytes in a field (proto-max-bulk-len)")
        return found

    def _next_group(self) -> list[Sending] | None:
        group = super()._next_group()
        if group is None or not self._by_header:
            return group
        streams: dict[Any, str] = {}
        for number, sending in enumerate(group):
            message = sending.taken[0].message
            stream = self._stream(message)
            if streams.setdefault(lane_of_key(message), stream) != stream:  # its order would be left to chance
                self._queue.extendleft(reversed(group[number:]))
                return group[:number]
        return group

    async def _publish(self, group: Sequence[Sending]) -> None:
        parts = left = self._parts(group)
        for pause in _PAUSES:
            if pause:
                await asyncio.sleep(pause)
            by_node: dict[Address, list[_Part]] = {}
            for part in left:
                by_node.setdefault(part.address, []).append(part)
            # No task for each: what is to be sent next would wait for turns of the loop.
            sent = [(await self._send_to(address, of_node), of_node) for address, of_node in by_node.items()]
            for client, of_node in sent:
                await self._hear(client, of_node)
            if not (left := [part for part in left if part.why and self._is_sent_on(part)]):
                break
        places = {id(sending): number for number, sending in enumerate(group)}
        failed = sorted((part for part in parts if part.why), key=lambda part: places[id(part.sendings[0])])
        self._vain = self._vain if len(failed) == len(parts) else 0
        if not failed:
            self._trouble, self._most = "", min(GROUP, 2 * self._most)
        else:
            await self._not_added([sending for part in failed for sending in part.sendings], failed[0].why)

    def _parts(self, group: Sequence[Sending]) -> list[_Part]:
        assert self._cluster is not None
        parts: dict[bytes, _Part] = {}
        for sending in group:
            stream = encoded(self._stream(sending.taken[0].message))
            part = parts.get(stream)
            if part is None:
                part = parts[stream] = _Part(stream, self._cluster.master_of(stream))
            part.sendings.append(sending)
        return [*parts.values()]

    def _is_sent_on(self, part: _Part) -> bool:
        assert self._cluster is not None
        if part.why.startswith("MOVED"):
            self._cluster.moved(part.stream, redirected(part.why, part.address))
        return part.sent_on()

    async def _send_to(self, address: Address, parts: Sequence[_Part]) -> Client:
        client = await self._reached(address)
        commands: list[bytes] = []
        for part in parts:
            commands += [_ASKING] * part.asking
            commands.append(packed(arguments(self._script, map(self._entry, part.sendings))))
        await client.send([*commands, packed(self._wait.command) if self._wait.wanted else b""])
        return client

    async def _hear(self, client: Client, parts: Sequence[_Part]) -> None:
        done = [await self._answer(client, part) for part in parts]
        if self._wait.wanted:
            await self._wait_for(client, added=any(done))
        for part, count in zip(parts, done, strict=True):
            for sending in part.sendings[:count]:
                sending.durable()
            del part.sendings[:count]

    async def _wait_for(self, client: Client, *, added: bool) -> None:
        try:
            answer = await client.answer()
        except ResponseError:
            if added:
                raise
            return  # it is a replica by now, which has added nothing and waits for nobody
        await self._wait_until_safe(client, answer)

    async def _answer(self, client: Client, part: _Part) -> int:
        why = ""
        if part.asking:
            try:
                await client.answer()
            except ResponseError as error:
                why = answered(error)
        count, part.why = await self._added(client)
        part.why = why or part.why
        return count
