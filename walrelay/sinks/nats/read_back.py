"""Subjects read back from their streams, by a consumer that is gone afterwards and acknowledges nothing.

A stream is one partition, and a message's offset is its number there.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error

from walrelay.errors import Retryable, SinkError
from walrelay.model import EVENT_ID, REPLAYED
from walrelay.publish.contract import Found, Span
from walrelay.sinks.address import AddressTemplate
from walrelay.sinks.hosting import PumpedLoop
from walrelay.sinks.nats.api import STREAM_NOT_FOUND, ApiError, ask, stream_of
from walrelay.sinks.nats.client import connected, said
from walrelay.sinks.nats.settings import NatsSettings
from walrelay.sinks.nats.subjects import subject_fault

_AT_ONCE = 500  # messages
_PATIENCE = 10.0  # seconds for the next ones
_IDLE = 60_000_000_000  # nanoseconds after which NATS forgets a consumer that nobody asks
_RIGHTS = "Let the user publish to $JS.API.STREAM.>, $JS.API.CONSUMER.CREATE.> and $JS.API.CONSUMER.MSG.NEXT.>"


def read_back(settings: NatsSettings, topics: Sequence[str], since_ms: int) -> Iterator[Found | Span]:
    """See `SinkPlugin.read_back`."""
    template = AddressTemplate(settings.subject)
    if template.by_row:
        raise SinkError(
            f"only a row says which subject its message has, by sink.subject: {settings.subject}",
            hint="Subjects of {topic} alone can be read back.",
        )
    loop = PumpedLoop()
    try:
        client = loop.run_until_complete(connected(settings, loop, _nothing))
        for topic in topics:
            subject = template.of_topic(topic)
            if not subject_fault(subject):
                yield from _Subject(settings, loop, client, topic, subject).all(since_ms)
    except ApiError as why:
        raise SinkError(f"the subjects cannot be read: {why}", hint=_RIGHTS) from why
    except (Error, OSError) as why:
        raise Retryable(f"the subjects cannot be read: {said(why)}") from why
    finally:
        loop.let_go()


async def _nothing(why: Exception) -> None:
    """What NATS says without being asked shows in what is asked next."""


class _Subject:
    """One subject, up to where its stream ended when this began."""

    def __init__(self, settings: NatsSettings, loop: PumpedLoop, client: Client, topic: str, subject: str) -> None:
        self._settings, self._loop, self._client = settings, loop, client
        self._topic, self._subject = topic, subject

    def all(self, since_ms: int) -> Iterator[Found | Span]:
        run = self._loop.run_until_complete
        stream = self._settings.stream or run(stream_of(self._client, self._subject))
        state = None if stream is None else run(self._state(stream))
        if stream is None or state is None:
            return
        low, high = state["first_seq"], state["last_seq"] + 1
        span = Span(self._topic, 0, low, high, high, high, None)
        made = run(self._made(stream, since_ms))
        try:
            left = made["num_pending"]
            while left > 0:
                for message in run(self._next(stream, made["name"], min(left, _AT_ONCE))):
                    left -= 1
                    number = message.metadata.sequence.stream
                    if number >= high:
                        left = 0
                        break
                    if span.oldest_ms is None:
                        span = span._replace(began=number, oldest_ms=_ms(message))
                    if (found := self._found(message, number)) is not None:
                        yield found
        finally:
            with suppress(ApiError, Error, OSError):
                run(ask(self._client, f"CONSUMER.DELETE.{stream}.{made['name']}"))
        yield span

    async def _state(self, stream: str) -> Any:
        """None where there is no such stream."""
        try:
            answer = await ask(self._client, f"STREAM.INFO.{stream}")
        except ApiError as why:
            if why.code == STREAM_NOT_FOUND:
                return None
            raise
        if (retention := answer["config"].get("retention", "limits")) != "limits":
            raise SinkError(
                f"stream {stream!r} throws away what was consumed (retention: {retention}), so it is not read",
                hint="Only a stream that keeps its messages can be read back.",
            )
        return answer["state"]

    async def _made(self, stream: str, since_ms: int) -> Any:
        since = datetime.fromtimestamp(since_ms / 1000, UTC)
        config = {
            "deliver_policy": "by_start_time",
            "opt_start_time": f"{since:%Y-%m-%dT%H:%M:%S.%f}Z",
            "filter_subject": self._subject,
            "ack_policy": "none",
            "replay_policy": "instant",
            "inactive_threshold": _IDLE,
            "mem_storage": True,
            "num_replicas": 1,
        }
        return await ask(self._client, f"CONSUMER.CREATE.{stream}", stream_name=stream, config=config)

    async def _next(self, stream: str, consumer: str, most: int) -> list[Msg]:
        subscription = await self._client.jetstream().pull_subscribe_bind(consumer=consumer, stream=stream)
        try:
            return await subscription.fetch(most, timeout=_PATIENCE)
        except TimeoutError as why:
            raise Retryable(f"NATS sent nothing more of {self._subject!r} within {_PATIENCE:g} s") from why
        finally:
            await subscription.unsubscribe()

    def _found(self, message: Msg, number: int) -> Found | None:
        """None if walrelay did not publish it."""
        headers = message.headers or {}
        identity, position = headers.get("id", headers.get(EVENT_ID)), headers.get("position")
        if identity is None or position is None:
            return None
        name = self._settings.key_header
        key = None if name is None or name not in headers else headers[name].encode()
        replayed = headers.get(REPLAYED[0]) == REPLAYED[1].decode()
        letter, meant_for = "dead_letter_error" in headers, headers.get("dead_letter_topic", "")
        content = hash((key, message.data))
        where = self._topic, 0, number, _ms(message)
        return Found(*where, key, identity, position, replayed, letter, meant_for, content)


def _ms(message: Msg) -> int:
    return int(message.metadata.timestamp.timestamp() * 1000)
