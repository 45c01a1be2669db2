"""Pub/Sub through its gRPC stub: a request for what a lane has, with one topic and one ordering key. What is not
answered, or not about the messages, is sent again; a request without any answer ends the run.

gRPC's threads tell of answers; its asyncio has one queue of events for all loops of a process, and loses some.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import grpc
from google.pubsub_v1.types import PublishRequest, PublishResponse

from walrelay.certificates import Stamp
from walrelay.errors import Retryable, WalrelayError
from walrelay.model import Message
from walrelay.sinks.hosting import Misfit, PumpedLoop, Sending
from walrelay.sinks.hosting.circuit import Circuit, Gate
from walrelay.sinks.hosting.patience import NotAnswered, PatientRequests
from walrelay.sinks.hosting.prepared import PreparedMessages
from walrelay.sinks.hosting.threads import in_thread, until_told
from walrelay.sinks.pubsub.answers import meaning
from walrelay.sinks.pubsub.client import channel, place_of
from walrelay.sinks.pubsub.credentials import AccessToken, Metadata, no_token
from walrelay.sinks.pubsub.messages import PubsubConversion, PubsubOutgoing
from walrelay.sinks.pubsub.settings import PubsubSettings

_PUBLISH = "/google.pubsub.v1.Publisher/Publish"
_AT_ONCE = 500  # requests
_LATE = 5.0  # seconds after its deadline, when gRPC itself must have ended a request
_Request: Any = PublishRequest.pb()
_Response: Any = PublishResponse.pb()


class PubsubConnection:
    """See `walrelay.sinks.hosting.HostedConnection`."""

    def __init__(
        self,
        settings: PubsubSettings,
        prepared: PreparedMessages[PubsubOutgoing],
        loop: PumpedLoop,
        fail: Callable[[WalrelayError], None],
    ) -> None:
        self._settings, self._loop, self._fail = settings, loop, fail
        self._convert = PubsubConversion(settings)
        self._prepared = prepared
        self._token: AccessToken | None = None
        self._renewal = asyncio.Lock()
        self._channels: list[Any] = []  # the last is in use
        self._certificates: Stamp = ()
        self._publish: Any = None
        self._address = ""
        self._gate = Gate(Circuit(), asyncio.Semaphore(_AT_ONCE))
        self._patience = PatientRequests()
        self._under_way: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Gets the credentials. gRPC connects when there is something to send."""
        self._address, tls = place_of(self._settings)
        self._connect()
        if tls:
            self._token = AccessToken(self._settings.credentials_file)
            await self._metadata()

    def _connect(self) -> None:
        """A channel with the certificates as they are now: gRPC reads them once for each."""
        certificates = self._settings.certificate_files.stamp
        made = channel(self._settings)
        self._channels.append(made)
        self._certificates = certificates
        self._publish = made.unary_unary(
            _PUBLISH, request_serializer=_Request.SerializeToString, response_deserializer=_Response.FromString
        )

    def _use_renewed_certificates(self) -> None:
        """After a failure. The requests of the channel before have their deadline."""
        if self._token is None or self._settings.certificate_files.stamp == self._certificates:
            return
        before = self._channels[-1]
        with suppress(OSError, WalrelayError):  # while they are being renewed
            self._connect()
            self._loop.call_later(self._settings.request_timeout + _LATE, self._leave, before)

    def _leave(self, opened: Any) -> None:
        self._channels.remove(opened)
        opened.close()

    def send(self, sending: Sending) -> None:
        outgoing = self._prepared.of(sending)
        task = self._loop.create_task(self._deliver(sending, outgoing))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    def push(self) -> None:
        """Tasks go on as soon as the loop runs."""

    def misfit(self, message: Message) -> Misfit | None:
        outgoing = self._convert(message)
        if isinstance(outgoing, Misfit):
            return outgoing
        self._prepared.keep(message, outgoing)
        return None

    def trouble(self) -> str:
        return self._patience.trouble(f"Pub/Sub at {self._address}")

    def close(self) -> None:
        """The loop does not know of gRPC's connections. Requests that are on their way end with the channel."""
        for task in self._under_way:
            task.cancel()
        for opened in self._channels:
            with suppress(Exception):
                opened.close()
        self._channels.clear()

    async def _metadata(self) -> Metadata:
        if self._token is None:
            return ()
        if not self._token.valid:
            async with self._renewal:
                if not self._token.valid:
                    await self._renew(self._token)
        return self._token.metadata

    async def _renew(self, token: AccessToken) -> None:
        """Retryable where those who give credentials, or a file system, do not answer in time."""
        try:
            async with asyncio.timeout(self._settings.request_timeout):
                await in_thread(token.renew)
        except TimeoutError:
            raise Retryable(no_token(self._settings.request_timeout)) from None

    async def _deliver(self, sending: Sending, outgoing: Sequence[PubsubOutgoing]) -> None:
        request = _Request(topic=outgoing[0].topic, messages=[each.message for each in outgoing])
        try:
            await self._patience.until_answered(self._gate, partial(self._attempt, sending, request))
        except WalrelayError as why:
            self._fail(why)
        except Exception as why:
            self._fail(Retryable(f"the client of Pub/Sub failed: {type(why).__name__}: {why}"))

    async def _attempt(self, sending: Sending, request: Any, began: float) -> NotAnswered | None:
        """One request. None: the sending was told what became of it."""
        patience = self._settings.request_timeout
        call = self._publish.future(request, timeout=patience, metadata=await self._metadata())
        try:
            async with asyncio.timeout(patience + _LATE):
                await until_told(call.add_done_callback)
        except TimeoutError:
            sending.failed(f"gRPC has not ended a request for {request.topic} after {patience:g} s")
            return None
        if call.code() is not grpc.StatusCode.OK:
            return self._failed(sending, request.topic, call, began)
        self._gate.circuit.answered(began)
        count = len(call.result().message_ids)
        if count == len(request.messages):
            sending.durable()
        else:
            sending.failed(f"Pub/Sub gave {count} ids for {len(request.messages)} messages")
        return None

    def _failed(self, sending: Sending, topic: str, call: Any, began: float) -> NotAnswered | None:
        status, text = call.code().name, " ".join((call.details() or "").split())[:500]
        meant = meaning(status, text)
        what = f"{status}: {text}" if text else status
        self._use_renewed_certificates()
        if meant.verdict == "wait":
            return NotAnswered(what, meant.speaks_for_all, too_fast=status == "RESOURCE_EXHAUSTED")
        if meant.verdict == "over":
            sending.failed(f"Pub/Sub at {self._address} did not answer a request for {topic}: {what}")
            return None
        self._gate.circuit.answered(began)
        sending.refused(f"Pub/Sub refused it for {topic}: {what}", meant.hint, meant.error, meant.scope)
        return None
