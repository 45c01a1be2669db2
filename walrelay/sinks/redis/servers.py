"""The servers that a command asks: the master, or those of a cluster."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple

from walrelay.sinks.redis.client import Client, connected, said
from walrelay.sinks.redis.cluster import AWAY, ClusterNodes, cluster_of
from walrelay.sinks.redis.groups import encoded
from walrelay.sinks.redis.settings import RedisSettings


class RedisServers(NamedTuple):
    """`cluster`: None for a single server. `away`: its masters that cannot be reached, and why."""

    masters: Sequence[Client]
    cluster: ClusterNodes | None = None
    away: Sequence[str] = ()

    async def of(self, stream: str) -> Client:
        """The one that has it. Raises what the client library does, and Retryable."""
        if self.cluster is None:
            return self.masters[0]
        return await self.cluster.client(self.cluster.master_of(encoded(stream)))


@asynccontextmanager
async def servers_of(settings: RedisSettings) -> AsyncIterator[RedisServers]:
    """Retryable where none can be reached, Fatal where none can be used."""
    if not settings.cluster:
        client = await connected(settings)
        try:
            yield RedisServers([client])
        finally:
            await client.close()
        return
    cluster = await cluster_of(settings)
    masters, away = [], []
    try:
        for address in cluster.masters:
            try:
                masters.append(await cluster.client(address))
            except AWAY as why:
                away.append(f"{address}: {said(why)}")
        yield RedisServers(masters, cluster, away)
    finally:
        await cluster.close()
