"""One channel in confirm mode, through pika: what RabbitMQ's answers mean for each message.

An answer names a delivery tag, or all up to one. A message that no queue takes comes back before it is confirmed,
without its tag, but with its properties. AMQP reserves one of them, cluster-id: brokers pass it on, and consumers have
no use for it. It has the tag, because nothing else tells apart two events that look the same. An exchange that does not
exist, or that the user may not write to, ends the channel with a text.
"""

import asyncio
import re
from collections.abc import Callable, Sequence
from typing import Any

import pika
from pika.adapters.asyncio_connection import AsyncioConnection
from pika.channel import Channel
from pika.exceptions import ChannelClosed, StreamLostError

from walrelay.errors import Retryable, SinkError, WalrelayError
from walrelay.model import Message
from walrelay.sinks.address import AddressTemplate, NoAddress
from walrelay.sinks.hosting import InDoubt, Misfit, PumpedLoop, Sending
from walrelay.sinks.rabbitmq.settings import RabbitmqSettings, addresses

_SHORT = 255  # bytes of a short string
_FRAME = 131_072  # bytes: what pika asks for, and RabbitMQ grants unless it is set to less
_ENVELOPE = 8 + 12 + 2  # bytes of a frame with properties beside them
_FIXED = 4 + 1 + 8 + 1 + 20  # bytes of what every message has: the headers' size, delivery mode, timestamp, cluster-id
_DANGEROUS = {"cc", "bcc"}  # of these headers RabbitMQ makes further routing keys
_PROPERTIES = {
    "content-type": "content_type",
    "correlation_id": "correlation_id",
    "type": "type",
    "event_id": "message_id",  # as the envelope `spring` calls it
    "id": "message_id",
}
_PERSISTENT = 2
_OF_A_MESSAGE = {
    403: (
        "not_authorized",
        "topic",
        "Grant the user of sink.url the right to write there (rabbitmqctl set_permissions).",
    ),
    404: ("unknown_topic", "topic", "Declare the exchange, or correct sink.exchange."),
    406: ("refused", "message", "Look for the message at this position."),
}
"""Reply codes with which RabbitMQ ends a channel for what was published: error, scope and hint."""


class RabbitmqConnection:
    """See `walrelay.sinks.hosting.HostedConnection`."""

    def __init__(self, settings: RabbitmqSettings, loop: PumpedLoop, fail: Callable[[WalrelayError], None]) -> None:
        self._settings, self._loop, self._fail = settings, loop, fail
        self._exchange, self._routing_key = AddressTemplate(settings.exchange), AddressTemplate(settings.routing_key)
        self._connection: AsyncioConnection | None = None
        self._channel: Channel | None = None
        self._blocked = ""
        self._frame = _FRAME
        self._tag = 0
        self._open: dict[int, Sending] = {}  # by delivery tag, rising
        self._places: dict[Sending, tuple[str, str]] = {}  # exchange and routing key

    async def open(self) -> None:
        self._connection = connection = await self._connect()
        connection.add_on_connection_blocked_callback(self._on_blocked)
        connection.add_on_connection_unblocked_callback(self._on_unblocked)
        connection.add_on_close_callback(self._on_lost)
        ready: asyncio.Future[None] = self._loop.create_future()

        def opened(channel: Channel) -> None:
            self._channel = channel
            channel.add_on_close_callback(self._on_channel_closed)
            channel.add_on_return_callback(self._on_returned)
            channel.confirm_delivery(self._on_answer, lambda frame: ready.set_result(None))

        connection.channel(on_open_callback=opened)
        await ready
        self._frame = connection.params.frame_max

    async def _connect(self) -> AsyncioConnection:
        done: asyncio.Future[Any] = self._loop.create_future()
        AsyncioConnection.create_connection(parameters(self._settings), done.set_result, custom_ioloop=self._loop)
        made = await done
        if isinstance(made, BaseException):
            raise Retryable(f"RabbitMQ cannot be reached: {said(made)}")
        return made

    def send(self, sending: Sending) -> None:
        ((message, _),) = sending.taken
        if self._frame < _FRAME and (misfit := self._too_large(message)) is not None:
            sending.refused(misfit.reason, misfit.hint, misfit.error)  # taken before RabbitMQ had said what fits
            return
        exchange, routing_key = self._exchange(message), self._routing_key(message)
        self._tag += 1
        self._open[self._tag] = sending
        properties = self._properties(message, self._tag)
        self._places[sending] = exchange, routing_key
        assert self._channel is not None
        self._channel.basic_publish(
            exchange,
            routing_key,
            message.value or b"",
            properties,
            mandatory=self._settings.mandatory,
        )

    def push(self) -> None:
        """pika writes as soon as the loop runs."""

    def misfit(self, message: Message) -> Misfit | None:
        try:
            exchange, routing_key = self._exchange(message), self._routing_key(message)
        except NoAddress as why:
            return Misfit(str(why), "Correct sink.exchange and sink.routing_key, or the event.", "unroutable")
        if fault := _name_fault(exchange):
            return Misfit(f"the exchange's name {fault}", "Correct sink.exchange.")
        if fault := _name_fault(routing_key):
            return Misfit(f"the routing key {fault}", "Correct sink.routing_key, or the topic.")
        if self._settings.exchange and not exchange:
            return Misfit("the exchange's name is empty", "Correct sink.exchange, or the event.", "unroutable")
        return header_misfit(self._headers(message)) or self._too_large(message)

    def _too_large(self, message: Message) -> Misfit | None:
        """RabbitMQ ends the connection where the properties are not in one frame."""
        headers = self._headers(message)
        size = _ENVELOPE + _FIXED + sum(
            len(name.encode()) + (2 if value is None else 6 + len(value)) for name, value in headers
        )  # fmt: skip
        size += sum(1 + len(text.encode()) for text in self._known_properties(headers).values())
        if size <= self._frame:
            return None
        return Misfit(
            f"the headers and properties make a frame of {size:,} bytes, and RabbitMQ takes {self._frame:,}",
            "Shorten or remove headers.",
        )

    def trouble(self) -> str:
        return self._blocked

    def close(self) -> None:
        transport = getattr(self._connection, "_transport", None)
        if transport is not None:
            transport.abort()  # close would send what is queued; pika has no other way

    def _headers(self, message: Message) -> Sequence[tuple[str, bytes | None]]:
        if self._settings.key_header is None or message.key is None:
            return message.headers
        return [(self._settings.key_header, message.key), *message.headers]

    def _properties(self, message: Message, tag: int) -> pika.BasicProperties:
        headers = self._headers(message)
        return pika.BasicProperties(
            headers={name: _text(value) for name, value in headers},
            delivery_mode=_PERSISTENT,
            timestamp=message.timestamp_ms // 1000,
            cluster_id=str(tag),
            **self._known_properties(headers),
        )

    def _known_properties(self, headers: Sequence[tuple[str, bytes | None]]) -> dict[str, str]:
        known: dict[str, str] = {}
        for name, value in headers:
            known_as = _PROPERTIES.get(name.lower())
            if known_as in known and name.lower() == "event_id":
                continue  # a header `id` is there as well
            if known_as is not None and len(value or b"") <= _SHORT and isinstance(text := _text(value), str):
                known[known_as] = text
        if "content_type" not in known and self._settings.content_type:
            known["content_type"] = self._settings.content_type
        return known

    def _on_answer(self, frame: Any) -> None:
        method = frame.method
        tags = [method.delivery_tag]
        if method.multiple:
            tags = []
            for tag in self._open:  # rising
                if tag > method.delivery_tag:
                    break
                tags.append(tag)
        taken = type(method) is pika.spec.Basic.Ack
        for tag in tags:
            sending = self._open.pop(tag, None)
            if sending is None:
                continue  # it came back before
            del self._places[sending]
            if taken:
                sending.durable()
            else:
                topic = sending.taken[0].message.topic
                sending.not_now(f"RabbitMQ could not store a message for {topic!r} now, as a queue that is full does")

    def _on_returned(self, channel: Channel, method: Any, properties: Any, body: bytes) -> None:
        tag = int(properties.cluster_id) if (properties.cluster_id or "").isdecimal() else 0
        sending = self._open.pop(tag, None)
        if sending is None:  # something between walrelay and RabbitMQ has changed the properties
            self._fail(Retryable("RabbitMQ returned a message that no queue takes, and not the number that it had"))
            return
        exchange, routing_key = self._places.pop(sending)
        sending.refused(
            f"no queue takes it ({method.reply_text}): exchange {exchange!r}, routing key {routing_key!r}",
            "Bind a queue to that exchange for that key, or set sink.mandatory to false to lose such messages.",
            "unroutable",
            "topic",
        )

    def _on_channel_closed(self, channel: Channel, why: BaseException) -> None:
        """RabbitMQ ends a channel because of one message, and says which exchange it is about at most."""
        if not isinstance(why, ChannelClosed):
            self._on_lost(self._connection, why)
            return
        text = f"RabbitMQ closed the channel: {said(why)}"
        if not self._open or why.reply_code not in _OF_A_MESSAGE:
            self._fail(Retryable(text))
            return
        guilty = self._guilty(why)
        if guilty is None:
            self._fail(
                InDoubt(f"RabbitMQ closed the channel because of one of {len(self._open)} messages: {said(why)}")
            )
            return
        error, scope, hint = _OF_A_MESSAGE[why.reply_code]
        if "message size" in why.reply_text:
            error, hint = "too_large", "Raise max_message_size of RabbitMQ, or shorten the event."
        elif "internal exchange" in why.reply_text:
            hint = "Only other exchanges may publish to an internal one: correct sink.exchange."
        guilty.refused(f"RabbitMQ refused it: {why.reply_text}", hint, error, scope, ends=True)
        self._fail(Retryable(f"RabbitMQ closed the channel: {why.reply_text}"))

    def _guilty(self, why: ChannelClosed) -> Sending | None:
        """The first that the channel was closed for; None where that is not certain.

        The text quotes an exchange, and a routing key where topics have permissions. It is cut short, and a name may
        have quotes, so the text is compared with what it would be for each message.
        """
        if len(self._open) == 1:
            return next(iter(self._open.values()))
        by_key = "topic '" in why.reply_text
        found = dict[tuple[str, str], Sending]()
        for sending, (exchange, routing_key) in self._places.items():
            named = f"exchange '{exchange}' in vhost" in why.reply_text
            if named and (not by_key or f"topic '{routing_key}' in exchange" in why.reply_text):
                found.setdefault((exchange, routing_key if by_key else ""), sending)
        return next(iter(found.values())) if len(found) == 1 else None

    def _on_lost(self, connection: Any, why: BaseException) -> None:
        self._fail(Retryable(f"the connection to RabbitMQ is gone: {said(why)}"))

    def _on_blocked(self, connection: Any, frame: Any) -> None:
        self._blocked = f"RabbitMQ takes nothing for now: {frame.method.reason}"

    def _on_unblocked(self, connection: Any, frame: Any) -> None:
        self._blocked = ""


def parameters(settings: RabbitmqSettings) -> Sequence[pika.ConnectionParameters]:
    """One for each address; Fatal where the files of a certificate cannot be read."""
    made = []
    for address in addresses(settings.url):
        try:
            each = pika.URLParameters(address)
        except (ValueError, TypeError) as why:
            raise SinkError(
                f"sink.url is no address of RabbitMQ: {why}", hint="amqp://user:password@host:5672/vhost"
            ) from why
        if address.startswith("amqps://"):
            each.ssl_options = pika.SSLOptions(settings.context("RabbitMQ"), each.host)
        each.blocked_connection_timeout = None
        each.socket_timeout = each.stack_timeout = settings.request_timeout
        each.client_properties = {"connection_name": "walrelay"}
        made.append(each)
    return made


def header_misfit(headers: Sequence[tuple[str, bytes | None]]) -> Misfit | None:
    """Why RabbitMQ could not have these headers, or would take them for something else."""
    names = [name for name, _ in headers]
    for name in names:
        if name.lower() in _DANGEROUS:
            return Misfit(f"of a header {name!r} RabbitMQ would make further routing keys", "Rename or remove it.")
        if len(name.encode(errors="surrogateescape")) > _SHORT:
            return Misfit(f"the name of the header {name[:20]!r}... is longer than 255 bytes", "Shorten it.")
        if any(0xD800 <= ord(letter) <= 0xDFFF for letter in name):
            return Misfit(f"the name of the header {name!r} is not UTF-8", "Rename or remove it.")
    if len(names) != len({*names}):
        twice = next(name for name in names if names.count(name) > 1)
        return Misfit(f"the header {twice!r} is there twice, and RabbitMQ keeps one", "Rename or remove one of them.")
    return None


def _name_fault(text: str) -> str:
    try:
        return "is longer than 255 bytes" if len(text.encode()) > _SHORT else ""
    except UnicodeEncodeError:
        return "is not UTF-8"


def _text(value: bytes | None) -> str | bytes | None:
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


_SYSTEM = re.compile(r"\w+Error\(\d+, '([^']*)'\)")  # an error of the system in a text of pika


def said(why: BaseException) -> str:
    """What went wrong, without what pika wraps around it."""
    inner = getattr(why, "exceptions", None) or getattr(why, "exception", None)
    if inner is not None:
        return said(inner[-1] if isinstance(inner, (list, tuple)) else inner)
    lost = isinstance(why, StreamLostError) or "StreamLostError" in str(why)
    if lost and (system := _SYSTEM.search(str(why))):
        begun = "" if isinstance(why, StreamLostError) else " in the handshake, as a proxy does whose server is away"
        return f"the connection was lost{begun}: {system[1]}"  # pika guesses at another protocol, or a wrong password
    return f"{type(why).__name__}: {why}" if str(why) else repr(why)
