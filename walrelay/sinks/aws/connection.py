"""Requests of many entries, of which each may fail for itself: an entry that AWS has not taken waits and is sent again,
and nothing of its lane meanwhile. Requests run in threads, as boto3 blocks.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from threading import Event
from time import monotonic
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError, ParamValidationError, ReadTimeoutError
from botocore.exceptions import ConnectionError as NoConnection

from walrelay.errors import Retryable, WalrelayError
from walrelay.model import Message
from walrelay.sinks.aws.answers import AwsVerdict, verdict
from walrelay.sinks.aws.client import AbortableConnections, make_client, no_credentials, renew_credentials
from walrelay.sinks.aws.contract import AwsApi, AwsEntry, EntryFault
from walrelay.sinks.aws.settings import AwsSettings
from walrelay.sinks.hosting import Misfit, PumpedLoop, Sending
from walrelay.sinks.hosting.circuit import backed_off
from walrelay.sinks.hosting.prepared import PreparedMessages
from walrelay.sinks.hosting.threads import in_thread

_LONGEST = 300  # characters of what an answer says
_LATE = 5.0  # seconds that a request may take beyond its own timeouts: a name is looked up without one


class _Waiting:
    """An entry that has not been taken yet."""

    __slots__ = ("complaint", "entry", "failures", "sending")

    def __init__(self, sending: Sending, entry: AwsEntry) -> None:
        self.sending, self.entry, self.failures, self.complaint = sending, entry, 0, ""


class _Place:
    """`alone`: so many entries are sent each in a request of its own, because a request was refused as a whole."""

    def __init__(self) -> None:
        self.waiting: deque[_Waiting] = deque()
        self.until = 0.0
        self.running = self.failures = self.alone = 0


class AwsConnection:
    """See `walrelay.sinks.hosting.HostedConnection`."""

    def __init__(
        self,
        api: AwsApi,
        settings: AwsSettings,
        prepared: PreparedMessages[AwsEntry],
        loop: PumpedLoop,
        fail: Callable[[WalrelayError], None],
    ) -> None:
        self._api, self._settings, self._loop, self._fail = api, settings, loop, fail
        self._connections = AbortableConnections(settings.request_timeout)
        self._prepared = prepared
        self._places: dict[str, _Place] = {}  # those that something waits for
        self._running = 0
        self._complaining: dict[_Waiting, None] = {}  # the newest last
        self._client: Any = None
        self._closed = False

    async def open(self) -> None:
        """Makes the client, with credentials. It connects when there is something to send."""
        seconds = self._settings.request_timeout
        try:
            async with asyncio.timeout(seconds + _LATE):
                self._client = await in_thread(make_client, self._api, self._settings, self._connections)
        except TimeoutError:
            raise Retryable(no_credentials(seconds)) from None

    def misfit(self, message: Message) -> Misfit | None:
        entry = self._api.entry(message)
        if isinstance(entry, Misfit):
            return entry
        if entry.size > self._api.limits.entry_bytes:
            return Misfit(
                f"it has {entry.size:,} bytes for {self._api.name}, which takes {self._api.limits.entry_bytes:,}",
                "Shorten the event.",
                "too_large",
            )
        self._prepared.keep(message, entry)
        return None

    def send(self, sending: Sending) -> None:
        (entry,) = self._prepared.of(sending)
        self._wait(_Waiting(sending, entry))

    def push(self) -> None:
        """Begins requests for what waits, as many as may be on their way."""
        if self._client is None or self._closed:
            return
        now = monotonic()
        for name, place in [*self._places.items()]:
            while place.waiting and place.until <= now and self._running < self._settings.max_connections:
                self._running += 1
                place.running += 1
                self._loop.start(self._request(name, place, self._batch(place)))
            if not (place.waiting or place.running):
                del self._places[name]

    def trouble(self) -> str:
        if not self._complaining:
            return ""
        waiting = next(reversed(self._complaining))
        number = len(self._complaining)
        return f"{waiting.entry.place}: {waiting.complaint}" + (f" ({number:,} messages wait)" if number > 1 else "")

    def close(self) -> None:
        self._closed = True
        self._connections.abort()

    def _wait(self, waiting: _Waiting) -> None:
        self._places.setdefault(waiting.entry.place, _Place()).waiting.append(waiting)

    def _batch(self, place: _Place) -> list[_Waiting]:
        batch: list[_Waiting] = []
        entries, left, _ = self._api.limits
        if place.alone:
            place.alone, entries = place.alone - 1, 1
        while place.waiting and len(batch) < entries and (not batch or place.waiting[0].entry.size <= left):
            batch.append(place.waiting.popleft())
            left -= batch[-1].entry.size
        return batch

    async def _request(self, name: str, place: _Place, batch: list[_Waiting]) -> None:
        seconds, signed = self._settings.request_timeout, Event()
        try:
            async with asyncio.timeout(seconds + _LATE):
                faults = await in_thread(self._put, name, [each.entry.fields for each in batch], signed)
            self._tell(batch, faults)
            place.failures = 0
        except WalrelayError as why:
            self._fail(why)
        except ClientError as why:
            error, meta = why.response.get("Error", {}), why.response.get("ResponseMetadata", {})
            status = meta.get("HTTPStatusCode", 400)
            text = " ".join(error.get("Message", "").split())[:_LONGEST]  # a page, where a proxy answers
            self._answered(place, batch, EntryFault(error.get("Code") or str(status), text), status)
        except ParamValidationError as why:
            self._answered(place, batch, EntryFault("ParamValidationError", " ".join(str(why).split())), 400)
        except (TimeoutError, ReadTimeoutError):
            asked = f"{self._api.name} has not answered for {seconds:g} s to a request for {name!r}"
            self._fail(Retryable(asked if signed.is_set() else no_credentials(seconds)))
        except (HTTPClientError, NoConnection) as why:
            self._fail(Retryable(f"{self._api.name} cannot be reached: {why}"))
        except BotoCoreError as why:
            self._fail(Retryable(f"the client of {self._api.name} sends nothing: {why}"))
        except Exception as why:
            self._fail(Retryable(f"the client of {self._api.name} failed: {type(why).__name__}: {why}"))
        finally:
            self._running -= 1
            place.running -= 1
            self.push()

    def _put(self, place: str, entries: Sequence[dict[str, Any]], signed: Event) -> Sequence[EntryFault | None]:
        """In a thread. `signed` is set once there are credentials."""
        renew_credentials(self._client, self._connections)
        signed.set()
        return self._api.put(self._client, place, entries)

    def _tell(self, batch: list[_Waiting], faults: Sequence[EntryFault | None]) -> None:
        for waiting, fault in zip(batch, faults, strict=True):
            if fault is None:
                self._complaining.pop(waiting, None)
                waiting.sending.durable()
                continue
            found = verdict(fault.code, fault.message, senders_fault=fault.senders)
            if found.kind == "wait":
                self._complain(waiting, str(fault))
                self._loop.call_later(backed_off(waiting.failures), self._wait_again, waiting)
            else:
                self._refuse(waiting, found, fault)

    def _answered(self, place: _Place, batch: list[_Waiting], fault: EntryFault, status: int) -> None:
        """An error for the whole request."""
        found = verdict(fault.code, fault.message, status=status)
        if found.kind == "away":
            self._fail(Retryable(f"{self._api.name} does not accept the credentials: {fault}"))
        elif found.kind == "wait":
            place.failures += 1
            place.until = monotonic() + backed_off(place.failures)
            place.waiting.extendleft(reversed(batch))
            for each in batch:
                self._complain(each, str(fault))
            self._loop.call_later(backed_off(place.failures), self.push)
        elif found.scope == "message" and len(batch) > 1:
            place.waiting.extendleft(reversed(batch))
            place.alone += len(batch)
        else:
            for each in batch:
                self._refuse(each, found, fault)

    def _wait_again(self, waiting: _Waiting) -> None:
        self._wait(waiting)
        self.push()

    def _complain(self, waiting: _Waiting, said: str) -> None:
        waiting.failures += 1
        waiting.complaint = said
        self._complaining.pop(waiting, None)
        self._complaining[waiting] = None

    def _refuse(self, waiting: _Waiting, found: AwsVerdict, fault: EntryFault) -> None:
        self._complaining.pop(waiting, None)
        if found.kind == "away":
            self._fail(Retryable(f"{self._api.name} does not accept the credentials: {fault}"))
            return
        reason = f"{self._api.name} refused it for {waiting.entry.place!r}: {fault}"
        waiting.sending.refused(reason, found.hint, found.error, found.scope)
