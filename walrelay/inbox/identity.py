"""What identifies a message of walrelay, read from the message objects of each broker's library."""

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, Self

_POSITION = re.compile(r"([0-9A-F]{1,8}/[0-9A-F]{1,8}):(\d{1,9})", re.ASCII)
_IDS = "id", "event_id"  # the latter where consumers give `id` another meaning, as Spring does
_HEX = "\\x"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Unidentified(ValueError):
    """The message carries no id: it is not walrelay's, or a component on the way dropped its headers."""

    def __init__(self, where: str, names: Iterable[str]) -> None:
        super().__init__(
            f"a message of {where} has no header 'id' (it has: {', '.join(sorted(names)) or 'none'}). walrelay sets one"
            " for each event; for messages of others pass an id of your own to Inbox.receive."
        )


class Position(NamedTuple):
    """Commit LSN and ordinal of an event, as the header `position` has them: `16/B374D848:0`."""

    commit_lsn: str
    ordinal: int

    @classmethod
    def parsed(cls, text: str | None) -> Self | None:
        """None if `text` is no position: then the id decides."""
        found = _POSITION.fullmatch(text or "")
        return None if found is None else cls(found[1], int(found[2]))

    @property
    def of_a_row(self) -> bool:
        """Whether a backfill or a recovery made it for a row of the table: two below a multiple of 8.

        Commits begin at multiples of 8. See walrelay/decode/records.py; a test holds the two together.
        """
        return int(self.commit_lsn.partition("/")[2], 16) % 8 == 6


class MessageTrace(NamedTuple):
    """What W3C's headers of a message say, for the span of its consumer. `system` and `destination`: the broker and its
    topic, as OpenTelemetry's conventions name them.
    """

    traceparent: str | None = None
    tracestate: str | None = None
    baggage: str | None = None
    system: str = ""
    destination: str = ""


class Identity(NamedTuple):
    """`source` is the partition ("orders[3]") of a broker that keeps order in it, so that positions can be compared;
    `committed_at` the time of the commit, if the message's timestamp is that. `replayed`: it comes out of
    order, again or as a dead letter, and its position says nothing about its place here. `trace`: None where
    its headers have neither traceparent nor baggage.
    """

    id: str
    type: str | None = None
    position: Position | None = None
    source: str | None = None
    committed_at: datetime | None = None
    replayed: bool = False
    trace: MessageTrace | None = None


def identify(message: object) -> Identity:
    """Identifies a message of confluent-kafka, aiokafka, aio-pika or nats-py, or an entry `(id, fields)` of a Redis
    stream.

    Unidentified if there is no id. If a header occurs twice, the last one counts: it is walrelay's.
    """
    modules = {kind.__module__.partition(".")[0] for kind in type(message).__mro__}
    for library, found in _LIBRARIES.items():
        if library in modules:
            return found(message)
    if isinstance(message, tuple | list) and len(message) == 2 and isinstance(message[1], Mapping):
        return _of_redis(message)
    raise TypeError(
        f"{type(message).__module__}.{type(message).__qualname__} is not a message that walrelay knows: pass one of"
        " confluent-kafka, aiokafka, aio-pika or nats-py, or an entry (id, fields) of a Redis stream."
    )


def _of_confluent_kafka(message: Any) -> Identity:
    kind, milliseconds = message.timestamp()
    of_commit = kind == 1  # TIMESTAMP_CREATE_TIME
    return _of_kafka(message.topic(), message.partition(), message.headers(), milliseconds if of_commit else None)


def _of_aiokafka(message: Any) -> Identity:
    of_commit = message.timestamp_type == 0
    return _of_kafka(message.topic, message.partition, message.headers, message.timestamp if of_commit else None)


def _of_kafka(topic: str, partition: int, headers: Any, milliseconds: int | None) -> Identity:
    source = f"{topic}[{partition}]"
    committed_at = None if milliseconds is None else _EPOCH + timedelta(milliseconds=milliseconds)
    found = _found(f"partition {source}", headers or (), "kafka", topic)
    return found._replace(source=source, committed_at=committed_at)


def _of_aio_pika(message: Any) -> Identity:
    where = f"exchange {message.exchange!r} with routing key {message.routing_key!r}"
    topic = message.exchange or message.routing_key
    return _found(where, message.headers.items(), "rabbitmq", topic, instead=message.message_id)


def _of_nats(message: Any) -> Identity:
    headers = message.headers or {}
    where, instead = f"subject {message.subject}", headers.get("Nats-Msg-Id")
    return _found(where, headers.items(), "nats", message.subject, instead=instead)


def _of_redis(entry: Any) -> Identity:
    return _found(f"a Redis stream (entry {text_of(entry[0])})", entry[1].items(), "redis", "")


_LIBRARIES: dict[str, Callable[[Any], Identity]] = {
    "confluent_kafka": _of_confluent_kafka,
    "cimpl": _of_confluent_kafka,  # the name of confluent-kafka's extension module
    "aiokafka": _of_aiokafka,
    "aio_pika": _of_aio_pika,
    "nats": _of_nats,
}


def _found(
    where: str, headers: Iterable[tuple[Any, Any]], system: str, topic: str | None, instead: object = None
) -> Identity:
    known = {str(text_of(name)): value for name, value in headers}
    id_ = next(filter(None, (text_of(known.get(name)) for name in _IDS)), None) or text_of(instead)
    if not id_:
        raise Unidentified(where, known)
    return Identity(
        id=id_,
        type=text_of(known.get("type")),
        position=Position.parsed(text_of(known.get("position"))),
        replayed="replayed" in known or "dead_letter_error" in known,
        trace=_trace(known, system, topic or ""),
    )


def _trace(headers: Mapping[str, object], system: str, topic: str) -> MessageTrace | None:
    def text(name: str) -> str | None:
        value = headers.get(name)
        return value.decode(errors="replace") if isinstance(value, bytes) else None if value is None else str(value)

    parent, baggage = text("traceparent"), text("baggage")
    return MessageTrace(parent, text("tracestate"), baggage, system, topic) if parent or baggage else None


def text_of(value: object) -> str | None:
    """Ids may be no UTF-8, or have a zero byte: what PostgreSQL has no text for becomes hexadecimal. So does text that
    looks like the result, so that different ids stay different.
    """
    if value is None:
        return None
    raw = value if isinstance(value, bytes) else str(value).encode(errors="surrogatepass")
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        text = "\0"
    return f"{_HEX}{raw.hex()}" if "\0" in text or text.startswith(_HEX) else text
