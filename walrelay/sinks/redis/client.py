"""A connection to the server that is the master, through redis-py's connection for asyncio."""

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from redis.asyncio.connection import Connection, SSLConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError, ResponseError

from walrelay.errors import Retryable, SinkError
from walrelay.sinks.redis.settings import Address, RedisSettings

_OLDEST = (6, 2)  # the first that knows NOMKSTREAM and MINID
CLUSTER_RIGHTS = " +cluster|slots +asking"
_CODES = {
    "AskError": "ASK",
    "ClusterCrossSlotError": "CROSSSLOT",
    "ClusterDownError": "CLUSTERDOWN",
    "MasterDownError": "MASTERDOWN",
    "MovedError": "MOVED",
    "NoPermissionError": "NOPERM",
    "OutOfMemoryError": "OOM",
    "ReadOnlyError": "READONLY",
    "TryAgainError": "TRYAGAIN",
}
"""What the client takes away from the beginning of the answers that it makes errors of."""


_OF_INFO = {"appendonly": "aof_enabled", "maxmemory-policy": "maxmemory_policy"}
"""Settings that are in INFO as well, which users may ask for where CONFIG is forbidden."""


class Client:
    """One connection: a command and its answer after the other."""

    def __init__(self, connection: Connection, info: Mapping[str, str]) -> None:
        self._connection = connection
        self.info = info
        """What INFO says; empty where the user may not ask."""

    @property
    def address(self) -> str:
        return f"{self._connection.host}:{self._connection.port}"

    @property
    def user(self) -> str:
        return self._connection.username or "default"

    async def ask(self, *command: Any) -> Any:
        """The answer; ResponseError where it is an error."""
        await self.send(self._connection.pack_command(*command))
        return await self.answer()

    async def send(self, packed: Any) -> None:
        await self._connection.send_packed_command(packed, check_health=False)

    async def answer(self) -> Any:
        return await self._connection.read_response(disconnect_on_error=False)

    async def setting(self, name: str) -> str | None:
        """Of the server, by INFO or CONFIG; None where neither says it, as on a managed service."""
        if name in _OF_INFO and (known := self.info.get(_OF_INFO[name])) is not None:
            return {"0": "no", "1": "yes"}.get(known, known)
        with suppress(ResponseError):
            found = await self.ask("CONFIG", "GET", name)
            return str(found[1].decode()) if found else None
        return None

    async def close(self) -> None:
        await self._connection.disconnect(nowait=True)


async def connected(settings: RedisSettings) -> Client:
    """To the first of the servers that is a master. Retryable where none answers, Fatal where the files of a
    certificate cannot be read, or the server is of a kind that walrelay cannot publish to.
    """
    sentinels, servers = settings.sentinel_servers, settings.servers
    patience = settings.request_timeout / (len(sentinels) + len(servers) + 1)
    troubles: list[str] = []
    if sentinels:
        servers = await _told_by_sentinels(settings, sentinels, servers[0], patience, troubles)
    for address in servers:
        try:
            async with asyncio.timeout(patience):
                client = await connect_to(settings, address)
        except (RedisError, OSError, TimeoutError) as why:
            troubles.append(f"{address}: {said(why)}")
            continue
        refuse_unfit(client, settings)
        if (role := client.info.get("role", "master")) == "master":
            return client
        troubles.append(f"{address}: it is a {'replica' if role == 'slave' else role}")
        await client.close()
    raise Retryable(f"Redis cannot be reached: {'; '.join(troubles)}")


async def _told_by_sentinels(
    settings: RedisSettings, sentinels: Iterable[Address], master: Address, patience: float, troubles: list[str]
) -> list[Address]:
    for sentinel in sentinels:
        try:
            async with asyncio.timeout(patience):
                client = await connect_to(settings, sentinel)
                found = await client.ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", master.host)
                await client.close()
        except (RedisError, OSError, TimeoutError) as why:
            troubles.append(f"sentinel {sentinel}: {said(why)}")
            continue
        if found:
            return [master._replace(host=found[0].decode(), port=int(found[1]))]
        troubles.append(f"sentinel {sentinel}: it knows no master {master.host!r}")
    return []


async def connect_to(settings: RedisSettings, address: Address) -> Client:
    """Whatever that server is. Raises what the client library does."""
    options: dict[str, Any] = {
        "host": address.host,
        "port": address.port,
        "username": address.username,
        "password": address.password,
        "db": address.database,
        "protocol": 2,
        "socket_timeout": None,
        "socket_connect_timeout": None,
        "retry": Retry(NoBackoff(), 0),
    }
    if address.tls:
        settings.context("Redis")  # Fatal where a file cannot be read
        connection: Connection = SSLConnection(
            **options,
            ssl_check_hostname=True,
            ssl_ca_certs=settings.ca_file,
            ssl_certfile=settings.certificate_file,
            ssl_keyfile=settings.key_file or settings.certificate_file,
        )
    else:
        connection = Connection(**options)
    await connection.connect()  # type: ignore[no-untyped-call]
    info: dict[str, str] = {}
    client = Client(connection, info)
    with suppress(ResponseError):  # the user may not
        await client.ask("CLIENT", "SETNAME", "walrelay")
    with suppress(ResponseError):
        for line in (await client.ask("INFO")).decode().splitlines():
            name, _, value = line.partition(":")
            info[name] = value
    return client


def refuse_unfit(client: Client, settings: RedisSettings) -> None:
    """Fatal where the server is older than what walrelay asks of it, or of another kind than the settings say."""
    version = client.info.get("redis_version", "")
    if version and tuple(int(part) for part in version.split(".")[:2]) < _OLDEST:
        raise SinkError(f"{client.address} is Redis {version}", hint="Use Redis 6.2 or later.")
    if client.info.get("cluster_enabled", str(int(settings.cluster))) != str(int(settings.cluster)):
        if settings.cluster:
            what, hint = "no node of a Redis Cluster, and sink.cluster is set", "Leave sink.cluster out."
        else:
            what, hint = "a node of a Redis Cluster, and sink.cluster is not set", "Set sink.cluster."
        raise SinkError(f"{client.address} is {what}", hint=hint)


def answered(why: ResponseError) -> str:
    """Redis's answer as it came."""
    code = _CODES.get(type(why).__name__, "")
    return f"{code} {why}" if code and not str(why).startswith(code) else str(why)


def said(why: BaseException) -> str:
    """What went wrong, in a line."""
    if isinstance(why, TimeoutError) and not str(why):
        return "it does not answer"
    return str(why) or type(why).__name__
