"""What the doctor asks Redis, and how streams are made beforehand."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager

from redis.exceptions import RedisError, ResponseError

from walrelay.errors import Fatal, WalrelayError
from walrelay.model import Finding
from walrelay.sinks.address import AddressTemplate
from walrelay.sinks.making import making
from walrelay.sinks.redis.client import Client, connected, said
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
        async with _connection(settings) as client:
            version = client.info.get("redis_version", "")
            found.append(Finding("sink", "ok", f"connected to Redis {version} at {client.address}".replace("  ", " ")))
            found += await _about_durability(settings, client)
            for stream, topic in _streams(settings, topics).items():
                found.append(await _about(settings, client, stream, topic))
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
    elif await client.setting("appendonly", "yes") != "yes":
        detail = "Redis writes no append-only file: what was confirmed is lost when it dies"
        fix = "CONFIG SET appendonly yes; CONFIG SET appendfsync always"
        found.append(Finding("sink", "warning", detail, fix))
    elif (fsync := await client.setting("appendfsync", "always")) != "always" and not wanted:
        detail = f"appendfsync is {fsync}: the last moments of what was confirmed are lost when the machine dies"
        fix = "CONFIG SET appendfsync always, or set sink.wait_replicas"
        found.append(Finding("sink", "warning", detail, fix))
    if await _forgets(client):
        detail = "maxmemory-policy lets Redis throw away whole streams"
        found.append(Finding("sink", "warning", detail, "CONFIG SET maxmemory-policy noeviction"))
    return found


async def _about_waiting_for_disk(client: Client) -> list[Finding]:
    try:
        await check_append_only_file(client)
    except WalrelayError as why:
        return [Finding("sink", "problem", said(why), why.hint or "CONFIG SET appendonly yes")]
    if await client.setting("appendfsync", "always") != "no":
        return []
    detail = "appendfsync is no, and sink.wait_aof is set: nothing becomes durable"
    return [Finding("sink", "problem", detail, "CONFIG SET appendfsync always, or everysec")]


async def _forgets(client: Client) -> bool:
    return (await client.setting("maxmemory-policy", "noeviction")).startswith("allkeys")


async def _about(settings: RedisSettings, client: Client, stream: str, topic: str) -> Finding:
    try:
        kind = (await client.ask("TYPE", stream)).decode()
    except ResponseError as why:
        return Finding("sink", "warning", f"the stream {stream!r} cannot be looked at: {why}", "Grant +type.")
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
        async with _connection(settings) as client:
            for stream in _streams(settings, topics):
                missing = await client.ask("TYPE", stream) == b"none"
                if missing:
                    await client.ask("XGROUP", "CREATE", stream, "walrelay", "0", "MKSTREAM")
                    await client.ask("XGROUP", "DESTROY", stream, "walrelay")
                made.append((stream, missing))
    except (RedisError, OSError, WalrelayError) as why:
        hint = getattr(why, "hint", "") or "Correct sink.url, or grant +type +xgroup|create +xgroup|destroy."
        raise Fatal(f"the streams could not be made: {said(why)}", hint=hint) from why
    return made


async def _positions_findings(settings: RedisSettings) -> list[Finding]:
    try:
        async with _connection(settings) as client:
            if await _forgets(client):
                fix = "CONFIG SET maxmemory-policy noeviction"
                return [Finding("positions", "problem", "maxmemory-policy lets Redis throw away positions", fix)]
    except (WalrelayError, RedisError, OSError):
        return []  # said by `examine`
    return [Finding("positions", "ok", f"positions are kept under {settings.positions_key!r} in Redis")]


def _streams(settings: RedisSettings, topics: Sequence[str]) -> dict[str, str]:
    """Those that are known beforehand, each with its topic."""
    return AddressTemplate(settings.stream).of_topics(topics)


@asynccontextmanager
async def _connection(settings: RedisSettings) -> AsyncIterator[Client]:
    client = await connected(settings.model_copy(update={"request_timeout": min(_PATIENCE, settings.request_timeout)}))
    try:
        yield client
    finally:
        await client.close()
