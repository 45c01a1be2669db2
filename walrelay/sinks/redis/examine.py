"""What the doctor asks Redis, and how streams are made beforehand."""

import asyncio
from collections.abc import Iterator, Sequence

from redis.crc import key_slot
from redis.exceptions import RedisError, ResponseError

from walrelay.errors import SinkError, WalrelayError
from walrelay.model import Finding
from walrelay.sinks.address import AddressTemplate
from walrelay.sinks.making import making
from walrelay.sinks.redis.client import Client, answered, said
from walrelay.sinks.redis.connection import ELSEWHERE
from walrelay.sinks.redis.groups import encoded
from walrelay.sinks.redis.servers import RedisServers, servers_of
from walrelay.sinks.redis.settings import RedisSettings
from walrelay.sinks.redis.waiting import check_append_only_file

_PATIENCE = 10.0  # seconds


def examine(settings: RedisSettings, topics: Sequence[str]) -> Iterator[Finding]:
    """Connects, and asks what becomes of entries if the server dies or has no memory left, and for each stream."""
    yield from asyncio.run(_findings(settings, topics))


def make_streams(settings: RedisSettings, topics: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """Empty ones."""
    yield from asyncio.run(_made(settings, topics))


def examine_positions(settings: RedisSettings) -> Iterator[Finding]:
    """Whether a position that was written is still there later."""
    yield from asyncio.run(_positions_findings(settings))


async def _findings(settings: RedisSettings, topics: Sequence[str]) -> list[Finding]:
    found: list[Finding] = []
    try:
        async with servers_of(_impatient(settings)) as servers:
            for client in servers.masters:
                version = client.info.get("redis_version", "")
                detail = f"connected to Redis {version} at {client.address}".replace("  ", " ")
                found.append(Finding("sink", "ok", detail))
                for each in await _about_durability(settings, client):
                    found.append(each._replace(detail=f"{client.address}: {each.detail}") if servers.cluster else each)
            found += _about_cluster(servers)
            for stream, topic in _streams(settings, topics).items():
                found.append(await _about(settings, await servers.of(stream), stream, topic))
    except (WalrelayError, RedisError, OSError) as why:
        hint = getattr(why, "hint", "") or "Correct sink.url, or start Redis."
        found.append(Finding("sink", "problem", said(why), hint))
    return found


async def _about_durability(settings: RedisSettings, client: Client) -> list[Finding]:
    found: list[Finding] = []
    replicas, wanted = int(client.info.get("connected_slaves", settings.wait_replicas)), settings.wait_replicas
    if replicas < wanted:
        detail = f"Redis has {replicas} replicas, and sink.wait_replicas is {wanted}: nothing becomes durable"
        found.append(Finding("sink", "problem", detail, "Add replicas, or lower sink.wait_replicas."))
    if settings.wait_aof:
        found += await _about_waiting_for_disk(client)
    else:
        found += await _about_the_file(client, wanted)
    policy = await client.setting("maxmemory-policy")
    if policy is None:
        found.append(_unknown("maxmemory-policy", "whether Redis throws away streams when its memory is full"))
    elif policy.startswith("allkeys"):
        detail = "maxmemory-policy lets Redis throw away whole streams"
        found.append(Finding("sink", "warning", detail, "CONFIG SET maxmemory-policy noeviction"))
    return found


async def _about_the_file(client: Client, replicas: int) -> list[Finding]:
    """Of an append-only file that nobody waits for."""
    writes = await client.setting("appendonly")
    if writes is None:
        return [_unknown("appendonly", "whether what was confirmed outlives Redis")]
    if writes != "yes":
        detail = "Redis writes no append-only file: what was confirmed is lost when it dies"
        return [Finding("sink", "warning", detail, "CONFIG SET appendonly yes; CONFIG SET appendfsync always")]
    fsync = await client.setting("appendfsync")
    if replicas or fsync == "always":
        return []
    if fsync is None:
        return [_unknown("appendfsync", "how much of what was confirmed is lost when the machine dies")]
    detail = f"appendfsync is {fsync}: the last moments of what was confirmed are lost when the machine dies"
    return [Finding("sink", "warning", detail, "CONFIG SET appendfsync always, or set sink.wait_replicas")]


def _unknown(setting: str, what: str) -> Finding:
    fix = f"ACL SETUSER ... +config|get   # or see {setting} where the service is managed"
    return Finding("sink", "warning", f"{setting} cannot be asked for: {what} is not known", fix)


def _impatient(settings: RedisSettings) -> RedisSettings:
    return settings.model_copy(update={"request_timeout": min(_PATIENCE, settings.request_timeout)})


def _about_cluster(servers: RedisServers) -> Iterator[Finding]:
    if servers.cluster is None:
        return
    for told in servers.away:
        yield Finding("sink", "problem", f"a master of the Redis Cluster is away: {told}", "Start it, or a replica.")
    if missing := servers.cluster.missing:
        detail = f"{missing} hash slots have no master, and what is for them waits"
        yield Finding("sink", "problem", detail, "redis-cli --cluster fix")
    for client in servers.masters:
        if client.info.get("connected_slaves") == "0":
            detail = f"{client.address} has no replica: the cluster takes nothing, or less, when it dies"
            yield Finding("sink", "warning", detail, "redis-cli --cluster add-node --cluster-slave")


async def _about_waiting_for_disk(client: Client) -> list[Finding]:
    try:
        await check_append_only_file(client)
    except WalrelayError as why:
        return [Finding("sink", "problem", said(why), why.hint or "CONFIG SET appendonly yes")]
    if await client.setting("appendfsync") != "no":
        return []
    detail = "appendfsync is no, and sink.wait_aof is set: nothing becomes durable"
    return [Finding("sink", "problem", detail, "CONFIG SET appendfsync always, or everysec")]


async def _forgets(client: Client) -> bool:
    return (await client.setting("maxmemory-policy") or "").startswith("allkeys")


async def _about(settings: RedisSettings, client: Client, stream: str, topic: str) -> Finding:
    try:
        kind = (await client.ask("TYPE", stream)).decode()
    except ResponseError as why:
        fix = "Ask again later." if answered(why).startswith(ELSEWHERE) else "Grant +type."
        return Finding("sink", "warning", f"the stream {stream!r} cannot be looked at: {answered(why)}", fix)
    if kind == "stream":
        return Finding("sink", "ok", f"the stream {stream!r} is there")
    if kind != "none":
        return Finding(
            "sink", "problem", f"the key {stream!r} holds a {kind}, no stream", "Rename it, or correct sink.stream."
        )
    if settings.create_streams:
        return Finding("sink", "ok", f"the stream {stream!r} will be made by its first message")
    fix = making(topic, "set sink.create_streams")
    return Finding("sink", "problem", f"the stream {stream!r} does not exist", fix)


async def _made(settings: RedisSettings, topics: Sequence[str]) -> list[tuple[str, bool]]:
    made: list[tuple[str, bool]] = []
    try:
        async with servers_of(_impatient(settings)) as servers:
            for stream in _streams(settings, topics):
                client = await servers.of(stream)
                missing = await client.ask("TYPE", stream) == b"none"
                if missing:
                    await client.ask("XGROUP", "CREATE", stream, "walrelay", "0", "MKSTREAM")
                    await client.ask("XGROUP", "DESTROY", stream, "walrelay")
                made.append((stream, missing))
    except (RedisError, OSError, WalrelayError) as why:
        hint = getattr(why, "hint", "") or "Correct sink.url, or grant +type +xgroup|create +xgroup|destroy."
        raise SinkError(f"the streams could not be made: {said(why)}", hint=hint) from why
    return made


async def _positions_findings(settings: RedisSettings) -> list[Finding]:
    try:
        async with servers_of(_impatient(settings)) as servers:
            for client in servers.masters:
                if await _forgets(client):
                    fix = "CONFIG SET maxmemory-policy noeviction"
                    return [Finding("positions", "problem", "maxmemory-policy lets Redis throw away positions", fix)]
    except (WalrelayError, RedisError, OSError):
        return []  # said by `examine`
    if settings.cluster and not _share_a_hash_slot(settings):
        detail = "streams and positions have different hash slots: with delivery exactly_once no message would be taken"
        fix = "Let sink.stream and sink.positions_key begin with a hash tag: {{relay}}:{topic}, {relay}:positions"
        return [Finding("positions", "warning", detail, fix)]
    return [Finding("positions", "ok", f"positions are kept under {settings.positions_key!r} in Redis")]


def _share_a_hash_slot(settings: RedisSettings) -> bool:
    """Whatever is put in for the names of the template."""
    template = AddressTemplate(settings.stream)
    streams = [template.of_topic(text) for text in ("a", "b")]
    return len({key_slot(encoded(key)) for key in (*streams, f"{settings.positions_key}:")}) == 1


def _streams(settings: RedisSettings, topics: Sequence[str]) -> dict[str, str]:
    """Those that are known beforehand, each with its topic."""
    return AddressTemplate(settings.stream).of_topics(topics)
