"""Connects to NATS: servers, credentials, TLS. Without reconnecting: a broken connection ends the run."""

import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import nkeys
from nats.aio.client import Client

from walrelay.errors import Fatal, Retryable, SinkError
from walrelay.sinks.hosting import PumpedLoop
from walrelay.sinks.nats.settings import NatsSettings, addresses

_JWT = re.compile(r"BEGIN NATS USER JWT-*\n\S+\n")
_SEED = re.compile(r"BEGIN USER NKEY SEED-*\n(\S+)\n")
NO_RESPONDERS = "503"  # the status of the answer where nobody listens on the subject


async def connected(
    settings: NatsSettings,
    loop: PumpedLoop,
    complained: Callable[[Exception], Awaitable[None]],
    lost: Callable[[], Awaitable[None]] | None = None,
) -> Client:
    """A client in that loop. `complained` hears of what NATS says without being asked. Retryable, or Fatal."""
    _check_files(settings)
    servers = [urlsplit(each) for each in addresses(settings.url)]
    tls = servers[0].scheme == "tls"
    client, last = Client(), Retryable("")
    patience = settings.request_timeout / (2 * len(servers))

    def secret(text: str) -> Callable[[], str]:
        """Asked for when it is sent: the client goes on without TLS where the server offers none."""

        def told() -> str:
            if tls and not loop.encrypted:
                raise _unencrypted()
            return text

        return told

    async def heard(why: Exception) -> None:
        nonlocal last
        last = Retryable(f"NATS cannot be reached: {_said_within(why, patience)}")
        await complained(why)

    try:
        await client.connect(
            [f"{each.scheme}://{each.netloc.rpartition('@')[2]}" for each in servers],
            error_cb=heard,
            disconnected_cb=lost,
            name="walrelay",
            allow_reconnect=False,
            max_reconnect_attempts=1,  # each server is tried twice
            reconnect_time_wait=0,
            connect_timeout=patience,  # type: ignore[arg-type]
            ping_interval=settings.request_timeout,  # type: ignore[arg-type]
            pending_size=0,  # the sink counts what waits
            tls=settings.context("NATS"),
            user_credentials=settings.credentials_file,
            nkeys_seed=settings.nkey_file,
            inbox_prefix=settings.inbox_prefix,
            **_credentials(servers, secret),
        )
    except Fatal:
        raise
    except Exception as why:
        raise (last if str(last) else Retryable(f"NATS cannot be reached: {_said_within(why, patience)}")) from why
    if tls and not loop.encrypted:
        raise _unencrypted()
    return client


def said(why: BaseException | None) -> str:
    """What went wrong, without the client's own name before it."""
    if isinstance(why, TimeoutError):
        return "no answer in time"
    text = str(why or "").removeprefix("nats: ").strip("'")
    return text or type(why).__name__


def _said_within(why: BaseException, seconds: float) -> str:
    return f"no answer within {seconds:g} s" if isinstance(why, TimeoutError) else said(why)


def _check_files(settings: NatsSettings) -> None:
    """The client looks for the parts of a file for ever."""
    try:
        if settings.nkey_file:
            nkeys.from_seed(bytearray(Path(settings.nkey_file).read_bytes().strip()))
        if settings.credentials_file:
            text = Path(settings.credentials_file).read_text()
            if found := _SEED.search(text):
                nkeys.from_seed(bytearray(found[1].encode()))
            if not found or not _JWT.search(text):
                raise ValueError("it has no JWT with a seed")
    except Exception as why:
        file = settings.nkey_file or settings.credentials_file
        raise SinkError(
            f"the credentials for NATS in {file} cannot be read: {type(why).__name__}: {why}",
            hint="Correct the file, or sink.credentials_file or sink.nkey_file.",
        ) from why


def _credentials(servers: list[Any], secret: Callable[[str], Callable[[], str]]) -> dict[str, Any]:
    """Those of the first address that has any; all servers of a cluster know the same users."""
    for each in servers:
        if each.password is not None:
            return {"user": secret(unquote(each.username or "")), "password": secret(unquote(each.password))}
        if each.username:
            return {"token": secret(unquote(each.username))}
    return {}


def _unencrypted() -> Fatal:
    return SinkError(
        "sink.url asks for TLS, and the NATS server offers none: nothing was sent to it",
        hint="Let the server have TLS, or write nats:// instead of tls://.",
    )
