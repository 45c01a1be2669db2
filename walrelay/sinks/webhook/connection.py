"""A POST for each message. What is not answered, or not about the message, is sent again, so that a run goes on while
an endpoint is away: its messages wait, each in its lane, and the relay stops reading when there is no room.
"""

import asyncio
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from math import inf
from time import monotonic

import aiohttp
from yarl import URL

from walrelay.errors import Retryable, WalrelayError
from walrelay.model import Message
from walrelay.sinks.address import NoAddress
from walrelay.sinks.hosting import Misfit, PumpedLoop, Sending
from walrelay.sinks.hosting.circuit import Circuit, Gate
from walrelay.sinks.hosting.patience import NotAnswered, PatientRequests
from walrelay.sinks.webhook.answers import Answer, answer, phrase
from walrelay.sinks.webhook.client import WholeBody, said, session
from walrelay.sinks.webhook.echoes import without_echo
from walrelay.sinks.webhook.memory import EndpointMemory
from walrelay.sinks.webhook.names import VALUE, RequestHeaders, event_id
from walrelay.sinks.webhook.settings import WebhookSettings
from walrelay.sinks.webhook.signature import secret, signature

_SHOWN = 200  # characters of an answer in a message
_MISSING = 60.0
"""Seconds that 404 and 405 are waited for: proxies answer so for an endpoint that is being deployed."""
_DRAIN = 1.0  # seconds an answer's body may take, beyond which its connection is not worth keeping
_DRAINED = 64 * 2**10  # bytes
_ENDPOINTS = 1_000  # that are kept while nothing goes there
_DOTS = {".", ".."}


class _Endpoint:
    """A URL that messages go to."""

    def __init__(self, url: str, circuit: Circuit, slots: asyncio.Semaphore) -> None:
        self.text, self.url, self.circuit = url, URL(url, encoded=True), circuit
        self.gate = Gate(circuit, slots)
        self.messages = 0
        self.missing_since = inf
        """When it first answered that it is not there; nothing else came since then."""


class WebhookConnection:
    """See `walrelay.sinks.hosting.HostedConnection`."""

    def __init__(
        self,
        settings: WebhookSettings,
        memory: EndpointMemory,
        loop: PumpedLoop,
        fail: Callable[[WalrelayError], None],
    ) -> None:
        self._settings, self._memory, self._loop, self._fail = settings, memory, loop, fail
        self._place = settings.endpoint
        self._secrets = [secret(each.get_secret_value()) for each in settings.signing_secrets]
        self._always = {name: value.get_secret_value() for name, value in settings.headers.items()}
        if settings.bearer_token is not None:
            self._always["authorization"] = f"Bearer {settings.bearer_token.get_secret_value()}"
        signing = [each.get_secret_value() for each in settings.signing_secrets]
        self._unsaid = [*signing, *self._always.values(), settings.endpoint.query.removeprefix("?")]
        self._unsaid += [each.removeprefix("Bearer ") for each in self._always.values()]
        self._headers = RequestHeaders(
            settings.key_header, settings.content_type, (name.lower() for name in self._always)
        )
        self._endpoints: dict[str, _Endpoint] = {}
        self._slots = asyncio.Semaphore(settings.max_connections)
        self._patience = PatientRequests()
        self._missing: dict[Sending, float] = {}  # since when their endpoint is not there for them

    async def open(self) -> None:
        """Makes the client. It connects when there is something to send."""
        settings = self._settings
        self._context()  # Fatal where the certificates cannot be read
        self._session = session(settings.request_timeout, allow_private=settings.allow_private_addresses)
        self._loop.start(self._until_cancelled())

    def _context(self) -> ssl.SSLContext | bool:
        """For a request, which may need a connection: certificates are renewed while the run goes on."""
        return self._settings.context(self._place.origin) if self._place.tls else True

    async def _until_cancelled(self) -> None:
        async with self._session:
            await self._loop.create_future()

    def send(self, sending: Sending) -> None:
        self._loop.start(self._deliver(sending))

    def push(self) -> None:
        """Tasks go on as soon as the loop runs."""

    def misfit(self, message: Message) -> Misfit | None:
        try:
            path = self._place.path(message)
        except NoAddress as why:
            return Misfit(str(why), "Correct sink.url, or the event.", "unroutable")
        if _DOTS & {*path.split("/")}:
            return Misfit("a part of its path is . or ..", "Correct sink.url, or the event.", "unroutable")
        headers = self._headers.of(message)
        if isinstance(headers, Misfit):
            return headers
        id_ = event_id(message)
        if id_ is None or not id_.isascii() or not VALUE.fullmatch(id_):
            return Misfit("it has no id that HTTP can carry as `webhook-id`", "Look into the row's id.")
        return None

    def trouble(self) -> str:
        return self._patience.trouble(self._place.origin)

    def close(self) -> None:
        """The loop knows of everything."""

    async def _deliver(self, sending: Sending) -> None:
        message = sending.taken[0].message
        endpoint = self._endpoint(message)
        try:
            await self._patience.until_answered(endpoint.gate, partial(self._attempt, endpoint, sending, message))
        except Exception as why:
            self._fail(Retryable(f"the client of {self._place.origin} failed: {type(why).__name__}: {why}"))
        finally:
            self._missing.pop(sending, None)
            self._leave(endpoint)

    async def _attempt(
        self, endpoint: _Endpoint, sending: Sending, message: Message, began: float
    ) -> NotAnswered | None:
        """One request. None: the sending was told what became of it."""
        try:
            failure = await self._request(endpoint, sending, message, began)
        except TimeoutError:
            failure = NotAnswered(f"it has not answered within {self._settings.request_timeout:g} s")
        except (aiohttp.ClientError, OSError) as why:
            failure = NotAnswered(said(why), speaks_for_all=isinstance(why, aiohttp.ClientConnectorError))
        if failure is not None:
            self._memory.circuits[endpoint.text] = endpoint.circuit
        return failure

    async def _request(
        self, endpoint: _Endpoint, sending: Sending, message: Message, began: float
    ) -> NotAnswered | None:
        """None: the sending was told what became of it. After that it must not be sent again: the next of its lane is
        on its way.
        """
        body, headers = WholeBody(message.value or b"", self._loop), self._request_headers(message)
        told = False
        try:
            async with self._session.post(
                endpoint.url, data=body, headers=headers, allow_redirects=False, ssl=self._context()
            ) as response:
                said_so = answer(response.status, response.headers, time.time())
                if said_so.verdict == "durable" and not body.is_sent:
                    return NotAnswered("it answered before it had the whole request")
                if said_so.verdict == "wait":
                    why = f"it answered {phrase(response.status)}"
                    if said_so.pause:
                        why += f" and asks for a pause of {said_so.pause:.0f} s"
                    return NotAnswered(why, said_so.speaks_for_all, said_so.pause, too_fast=said_so.speaks_for_all)
                if said_so.error == "unknown_endpoint" and self._may_come(endpoint, sending):
                    return NotAnswered(f"it answered {phrase(response.status)}, and may be there soon")
                endpoint.circuit.answered(began)
                told = True
                if said_so.error != "unknown_endpoint":
                    endpoint.missing_since = inf
                if said_so.verdict == "durable":
                    sending.durable()
                    await _text(response)
                else:
                    await self._refuse(sending, message, said_so, response)
        except (aiohttp.ClientError, OSError):
            if not told:
                raise
        return None

    def _may_come(self, endpoint: _Endpoint, sending: Sending) -> bool:
        """Whether it is not there for a short time only, for all or for this message."""
        now = monotonic()
        endpoint.missing_since = min(endpoint.missing_since, now)
        return now - min(endpoint.missing_since, self._missing.setdefault(sending, now)) < _MISSING

    async def _refuse(
        self, sending: Sending, message: Message, said_so: Answer, response: aiohttp.ClientResponse
    ) -> None:
        text = without_echo(await _text(response), message, self._unsaid)[:_SHOWN]
        reason = f"{self._place.origin} answered {phrase(response.status)}"
        sending.refused(f"{reason}: {text}" if text else reason, said_so.hint, said_so.error, said_so.scope)

    def _request_headers(self, message: Message) -> list[tuple[str, str]]:
        headers = self._headers.of(message)
        id_ = event_id(message)
        assert not isinstance(headers, Misfit)
        assert id_ is not None
        now = int(time.time())
        headers += [*self._always.items(), ("webhook-id", id_), ("webhook-timestamp", str(now))]
        if self._secrets:
            headers.append(("webhook-signature", signature(self._secrets, id_, now, message.value or b"")))
        return headers

    def _endpoint(self, message: Message) -> _Endpoint:
        url = f"{self._place.origin}{self._place.path(message)}{self._place.query}"
        endpoint = self._endpoints.get(url)
        if endpoint is None:
            endpoint = self._endpoints[url] = _Endpoint(url, self._memory.circuits.get(url) or Circuit(), self._slots)
        endpoint.messages += 1
        return endpoint

    def _leave(self, endpoint: _Endpoint) -> None:
        """Paths of keys are without end: an endpoint is forgotten when nothing goes there and it works."""
        endpoint.messages -= 1
        if not endpoint.messages and not endpoint.circuit.open:
            self._memory.circuits.pop(endpoint.text, None)
            if self._place.path.by_row or len(self._endpoints) > _ENDPOINTS:
                self._endpoints.pop(endpoint.text, None)


async def _text(response: aiohttp.ClientResponse) -> str:
    """How the body begins, in one line. The rest is read, so that the connection can be used again, or given up."""
    read = b""
    with suppress(TimeoutError, aiohttp.ClientError, OSError):
        async with asyncio.timeout(_DRAIN):
            total = 0
            async for chunk in response.content.iter_any():
                total += len(chunk)
                read = read or chunk[: 8 * _SHOWN]
                if total > _DRAINED:
                    break
    text = read.decode(errors="replace")
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
