"""JetStream through nats-py: what its answers mean for each message.

A message is published with a subject to answer at, which names it. The stream that has its subject answers; the server
does where nobody listens. Where the user may not publish nobody answers, but the server complains.

Chained, each message says which one must be the stream's last: what follows a message that was lost is refused.
"""

import asyncio
import json
import re
from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from typing import Any, NamedTuple

from nats.aio.client import Client
from nats.aio.msg import Msg

from walrelay.errors import Retryable, SinkError, WalrelayError
from walrelay.model import Message
from walrelay.sinks.address import AddressTemplate
from walrelay.sinks.hosting import Misfit, PumpedLoop, Sending
from walrelay.sinks.hosting.prepared import PreparedMessages
from walrelay.sinks.making import init_topics
from walrelay.sinks.nats.api import OTHER_LAST_SEQUENCE, ApiError, stream_of, unacknowledged
from walrelay.sinks.nats.client import NO_RESPONDERS, connected, said
from walrelay.sinks.nats.messages import Conversion, MessageIds, Outgoing
from walrelay.sinks.nats.settings import NatsSettings

ID = "Nats-Msg-Id"
_EXPECTED_LAST = "Nats-Expected-Last-Msg-Id"
_EXPECTED_STREAM = "Nats-Expected-Stream"
_EXPECTED_SEQUENCE = "Nats-Expected-Last-Sequence"
_OWN = {ID: 60, _EXPECTED_LAST: 75, _EXPECTED_STREAM: 25}  # bytes of these headers at most, but for the stream's name
_MOST_OF_HEADERS = 2**16 - 1
_SHORTEN = "Raise the server's max_payload, or shorten the event."
_NOT_ALLOWED = re.compile(r'permissions violation for publish to "([^"]*)"')
_MAY_NOT_LISTEN = "permissions violation for subscription"
_TOO_LARGE, _OTHER_STREAM, _OTHER_LAST, _SEALED = 10054, 10060, (10070, OTHER_LAST_SEQUENCE), 10109
_FULL = {10002, 10023, 10028, 10047, 10077}  # the account, a server or a stream has no room now
_TOO_MANY = 429


class Prepared(NamedTuple):
    """Of a message that fits, from when it is taken to when it is sent. It has its id in the order of publishing."""

    outgoing: Outgoing
    id: str


class _Awaited(NamedTuple):
    """A message without an answer."""

    number: str
    sending: Sending
    subject: str
    id: str
    at: float  # when it was sent


class _Denial(NamedTuple):
    """Of one message; the client tells its subject in small letters. Suspects that are answered had the right."""

    suspects: dict[str, _Awaited]  # by number, in the order of sending


class NatsConnection:
    """See `walrelay.sinks.hosting.Connection`."""

    def __init__(
        self,
        settings: NatsSettings,
        loop: PumpedLoop,
        fail: Callable[[WalrelayError], None],
        *,
        prepared: "PreparedMessages[Prepared] | None" = None,
        message_id: Callable[[Outgoing], str] | None = None,
    ) -> None:
        """`prepared`, `message_id`: the sink's, which has one connection after the other."""
        self._settings, self._loop, self._fail = settings, loop, fail
        self._convert = Conversion(AddressTemplate(settings.subject), settings.key_header)
        self._message_id: Callable[[Outgoing], str] = message_id or MessageIds()
        self._prepared = prepared or PreparedMessages[Prepared]()
        self._chained = settings.ordering == "chained"
        self._last = self._stored = ""  # ids: of what was sent, and of what the stream has
        self._before: int | None = None  # the stream's last message must have that number, before the first of a chain
        self.sequence = 0
        """The number that the stream gave to the message that it took last."""
        self._own = _OWN[ID] + (_OWN[_EXPECTED_LAST] if self._chained else 0)
        self._own += _OWN[_EXPECTED_STREAM] + len(settings.stream) if settings.stream else 0
        self._client: Client | None = None
        self._inbox = ""
        self._number = 0
        self._awaited: dict[str, _Awaited] = {}  # by number, in the order of sending
        self._denials: list[_Denial] = []  # of which it is not certain yet whose they are
        self._asked: dict[str, list[_Awaited]] = {}  # by subject: nobody listens, and the reason is being asked for
        self._written: list[tuple[str, bytes, str, dict[str, str]]] = []  # still to be handed to the client
        self._wake = asyncio.Event()
        self._complaint = ""

    async def open(self) -> None:
        self._client = await connected(self._settings, self._loop, self._on_complaint, self._on_lost)
        self._inbox = self._client.new_inbox()
        await self._client.subscribe(
            f"{self._inbox}.*", cb=self._on_answer, pending_msgs_limit=0, pending_bytes_limit=0
        )
        await self._client.flush(self._settings.request_timeout)  # type: ignore[arg-type]
        if _MAY_NOT_LISTEN in self._complaint:
            raise SinkError(
                f"the user of sink.url may not subscribe where NATS answers: {self._complaint}",
                hint=f"Allow it {self._settings.inbox_prefix}.>, or set sink.inbox_prefix to what it may.",
            )
        self._loop.start(self._write())
        self._loop.start(self._watch())

    @property
    def client(self) -> Client:
        assert self._client is not None, "not open"
        return self._client

    def send(self, sending: Sending) -> None:
        ((outgoing, id_),) = self._prepared.of(sending)
        if fault := self._size_fault(outgoing):  # it was taken before the server had said what is too large
            sending.refused(fault, _SHORTEN, "too_large")
            return
        self._number += 1
        number = str(self._number)
        headers = {**outgoing.headers, ID: id_}
        if self._settings.stream is not None:
            headers[_EXPECTED_STREAM] = self._settings.stream
        if self._chained and self._last:
            headers[_EXPECTED_LAST] = self._last
        elif self._before is not None:
            headers[_EXPECTED_SEQUENCE] = str(self._before)
        self._last = id_
        self._awaited[number] = _Awaited(number, sending, outgoing.subject, id_, monotonic())
        self._written.append((outgoing.subject, outgoing.payload, f"{self._inbox}.{number}", headers))
        self._wake.set()

    def push(self) -> None:
        """What was sent leaves as soon as the loop runs."""

    def misfit(self, message: Message) -> Misfit | None:
        outgoing = self._convert(message)
        if isinstance(outgoing, Misfit):
            return outgoing
        if outgoing.head + self._own > _MOST_OF_HEADERS:
            size, most = outgoing.head + self._own, _MOST_OF_HEADERS
            return Misfit(f"the headers have {size:,} bytes, and a stream takes {most:,}", "Shorten or remove headers.")
        if fault := self._size_fault(outgoing):
            return Misfit(fault, _SHORTEN, "too_large")
        self._prepared.keep(message, Prepared(outgoing, self._message_id(outgoing)))
        return None

    def trouble(self) -> str:
        return "" if self._inbox else self._complaint

    def close(self) -> None:
        """The loop has the connection."""

    def _size_fault(self, outgoing: Outgoing) -> str:
        if self._client is None:
            return ""
        size, most = len(outgoing.payload) + outgoing.head + self._own, self._client.max_payload
        if size <= most:
            return ""
        return f"payload and headers have {size:,} bytes, and the server takes {most:,} (max_payload)"

    async def _write(self) -> None:
        assert self._client is not None
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                written, self._written = self._written, []
                for subject, payload, reply, headers in written:
                    await self._client.publish(subject, payload, reply, headers)
        except Exception as why:
            self._fail(Retryable(f"the connection to NATS failed: {said(why)}"))

    async def _on_answer(self, answer: Msg) -> None:
        number = answer.subject.rpartition(".")[2]
        awaited = self._awaited.get(number)
        if awaited is None:
            return
        if not answer.data and (answer.headers or {}).get("Status") == NO_RESPONDERS:
            self._ask_why(awaited)
            return
        try:
            said_of_it = json.loads(answer.data)
        except ValueError:
            said_of_it = None
        if not isinstance(said_of_it, dict):
            return  # of somebody else who listens on the subject and answers
        if isinstance(error := said_of_it.get("error"), dict):
            self._refuse(awaited, error)
        elif said_of_it.get("stream") and said_of_it.get("seq"):
            self._answered(number)
            self._stored, self.sequence = awaited.id, said_of_it["seq"]
            awaited.sending.durable()

    def _refuse(self, awaited: _Awaited, error: Mapping[str, Any]) -> None:
        what, code = str(error.get("description", error)), error.get("err_code", 0)
        if code in _OTHER_LAST:
            if self._denials:  # it was behind the one that was denied
                self._answered(awaited.number)
            elif not self._asked:  # otherwise what is asked about is the reason
                awaited.sending.failed(
                    f"stream {self._settings.stream!r} did not have the message before as its last ({what}): it lost"
                    " one, or somebody else writes to it, which `ordering: chained` excludes"
                )
        elif code == _TOO_LARGE:
            self._tell(awaited, what, "Raise the stream's max_msg_size, or shorten the event.", "too_large", "message")
        elif code == _OTHER_STREAM:
            stream = self._settings.stream
            reason = f"its subject {awaited.subject!r} is in another stream than {stream!r} ({what})"
            self._tell(awaited, reason, "Correct sink.stream, or the stream's subjects.", "unknown_topic", "topic")
        elif code in _FULL or error.get("code", 0) == _TOO_MANY or error.get("code", 0) >= 500:
            self._put_off([awaited], f"JetStream could not store a message for {awaited.subject!r} now: {what}")
        else:
            scope, hint = "topic" if code == _SEALED else "message", "Look at the stream: nats stream info"
            self._tell(awaited, f"JetStream refused it: {what}", hint, "refused", scope)

    def _ask_why(self, awaited: _Awaited) -> None:
        """A stream may have the subject and be without a leader: then its messages are no refusals."""
        waiting = self._asked.get(awaited.subject)
        if waiting is None:
            self._asked[awaited.subject] = [awaited]
            self._loop.start(self._explain(awaited.subject))
        elif awaited not in waiting:
            waiting.append(awaited)

    async def _explain(self, subject: str) -> None:
        assert self._client is not None
        try:
            stream = await stream_of(self._client, subject)
        except ApiError as why:
            self._put_off(self._asked.pop(subject), f"nobody at NATS takes messages for {subject!r}: {why}")
            return
        if stream is not None:
            said_so = f"stream {stream!r} takes no messages for {subject!r} now: it has no leader"
            self._put_off(self._asked.pop(subject), said_so)
            return
        for each in self._asked.pop(subject):
            command = init_topics(each.sending.taken[0].message.topic, exact=True) if self._settings.stream else ""
            hint = command or "Make one: nats stream add; or set sink.stream, and walrelay init --topics makes it."
            self._tell(each, f"no stream has the subject {subject!r}", hint, "unknown_topic", "topic")

    def _put_off(self, awaited: Sequence[_Awaited], why: str) -> None:
        """What is behind them in a chain is refused: all of it is sent again, by another connection."""
        for each in awaited:
            self._answered(each.number)
            if self._chained:
                each.sending.failed(why)
            else:
                each.sending.not_now(why)

    def _tell(self, awaited: _Awaited, reason: str, hint: str, error: str, scope: str) -> None:
        self._answered(awaited.number)
        self._last = self._stored  # what comes next, if anything may, follows what the stream has
        awaited.sending.refused(reason, hint, error, scope)

    def _answered(self, number: str) -> None:
        self._awaited.pop(number, None)
        for denial in [*self._denials]:
            if denial.suspects.pop(number, None) is not None:
                self._decide(denial)

    async def _on_complaint(self, why: Exception) -> None:
        self._complaint = said(why)
        denied = _NOT_ALLOWED.search(self._complaint)
        if denied is None:
            return
        suspects = {number: each for number, each in self._awaited.items() if each.subject.lower() == denied[1]}
        self._denials.append(denial := _Denial(suspects))
        self._decide(denial)

    def _decide(self, denial: _Denial) -> None:
        """The right is that of a subject, and the first message of a subject without it is refused. Subjects that
        differ in case are told apart by the answers that the permitted ones get.
        """
        subjects = {each.subject for each in denial.suspects.values()}
        if len(subjects) > 1:
            return
        self._denials = [each for each in self._denials if each is not denial]
        for each in denial.suspects.values():
            reason = f"the user of sink.url may not publish to {each.subject!r}"
            self._tell(each, reason, "Allow it in NATS's permissions.", "not_authorized", "topic")
            return

    async def _watch(self) -> None:
        """A subscriber may take what no stream stores, and a stream may be set to acknowledge nothing: then no answer
        ever comes. The reason is asked for before the patience with an answer is over.
        """
        assert self._client is not None
        patience = self._settings.request_timeout / 2
        while True:
            await asyncio.sleep(patience / 2)
            late = monotonic() - patience
            for subject in dict.fromkeys(each.subject for each in self._awaited.values() if each.at < late):
                try:
                    why = await unacknowledged(self._client, subject)
                except ApiError:
                    continue  # the user may not be allowed to ask
                if why:
                    of_it = [each for each in self._awaited.values() if each.subject == subject and each.at < late]
                    self._put_off(of_it, f"NATS has not answered to a message for {subject!r}: {why}")

    async def _on_lost(self) -> None:
        why = self._client.last_error if self._client is not None else None
        self._fail(Retryable(f"the connection to NATS is gone: {said(why)}"))
