"""A Redis Cluster: which master has which hash slot, and a connection to each that is asked."""

import asyncio
import random
from collections.abc import Mapping
from typing import Any

from redis.crc import REDIS_CLUSTER_HASH_SLOTS, key_slot
from redis.exceptions import RedisError, ResponseError

from walrelay.errors import Retryable, SinkError
from walrelay.sinks.redis.client import CLUSTER_RIGHTS, Client, answered, connect_to, refuse_unfit, said
from walrelay.sinks.redis.settings import Address, RedisSettings

AWAY = (RedisError, OSError, TimeoutError)
"""What a server raises that cannot be reached."""


class ClusterNodes:
    """As the node said that was asked when it was made; what other nodes say later is noted."""

    def __init__(self, settings: RedisSettings, slots: Mapping[int, Address]) -> None:
        self._settings = settings
        self._slots = dict(slots)
        self._clients: dict[Address, Client] = {}

    @property
    def masters(self) -> list[Address]:
        """Those that have hash slots."""
        return [*dict.fromkeys(self._slots.values())]

    @property
    def missing(self) -> int:
        """How many hash slots have no master."""
        return REDIS_CLUSTER_HASH_SLOTS - len(self._slots)

    def master_of(self, key: bytes) -> Address:
        """Retryable where the key's hash slot has none."""
        found = self._slots.get(slot := key_slot(key))
        if found is None:
            raise Retryable(f"no master of the Redis Cluster has the hash slot {slot}, of the key {key!r}")
        return found

    def moved(self, key: bytes, master: Address) -> None:
        self._slots[key_slot(key)] = master

    def connected(self, address: Address) -> Client | None:
        """The connection to that node, if there is one."""
        return self._clients.get(address)

    async def client(self, address: Address) -> Client:
        """The connection to that node, which is made if there is none. Raises what the client library does."""
        if (found := self.connected(address)) is None:
            async with asyncio.timeout(_patience(self._settings)):
                found = self._clients[address] = await connect_to(self._settings, address)
            refuse_unfit(found, self._settings)
        return found

    async def close(self) -> None:
        for client in self._clients.values():
            await client.close()


async def cluster_of(settings: RedisSettings) -> ClusterNodes:
    """As one of the addresses describes it. Retryable where none answers, Fatal where the user may not ask."""
    troubles: list[str] = []
    # In any order: a node that the others have forgotten would send every run to the wrong place.
    for address in random.sample(settings.servers, len(settings.servers)):
        try:
            async with asyncio.timeout(_patience(settings)):
                client = await connect_to(settings, address)
                refuse_unfit(client, settings)
                slots = _slots(await _asked(client), address)
                await client.close()
        except AWAY as why:
            troubles.append(f"{address}: {said(why)}")
            continue
        if slots:
            return ClusterNodes(settings, slots)
        troubles.append(f"{address}: it knows no master with hash slots")
    raise Retryable(f"the Redis Cluster cannot be reached: {'; '.join(troubles)}")


async def connected_to_master_of(settings: RedisSettings, key: bytes) -> Client:
    """Retryable where it cannot be reached."""
    address = (cluster := await cluster_of(settings)).master_of(key)
    try:
        return await cluster.client(address)
    except AWAY as why:
        raise Retryable(f"Redis cannot be reached: {address}: {said(why)}") from why


def redirected(said: str, from_node: Address) -> Address:
    """Where MOVED and ASK, with the words of Redis, send a client: to the same host where they name none."""
    host, _, port = said.split()[2].rpartition(":")
    return from_node._replace(host=host or from_node.host, port=int(port))


async def _asked(client: Client) -> Any:
    try:
        return await client.ask("CLUSTER", "SLOTS")
    except ResponseError as why:
        if not answered(why).startswith("NOPERM"):
            raise
        raise SinkError(
            f"the user may not ask {client.address} which node has which hash slot: {answered(why)}",
            hint=f"ACL SETUSER {client.user}{CLUSTER_RIGHTS}",
        ) from why


def _slots(answer: Any, asked: Address) -> dict[int, Address]:
    slots: dict[int, Address] = {}
    for first, last, master, *_ in answer:
        host = (master[0] or b"").decode()
        if host != "?":  # the node has no name, though the cluster is to be found by names
            slots |= dict.fromkeys(range(first, last + 1), asked._replace(host=host or asked.host, port=master[1]))
    return slots


def _patience(settings: RedisSettings) -> float:
    return settings.request_timeout / (len(settings.servers) + 2)
