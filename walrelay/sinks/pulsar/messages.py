"""What a message is at Pulsar: topic, keys, properties and payload; and which partition its key chooses."""

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from walrelay.model import Message
from walrelay.sinks.address import AddressTemplate, NoAddress
from walrelay.sinks.hosting import Misfit
from walrelay.sinks.pulsar.settings import PulsarSettings
from walrelay.sinks.pulsar.topics import address_fault

_OBEYED = {
    *("RECONSUMETIMES", "DELAY_TIME", "REAL_TOPIC", "REAL_SUBSCRIPTION", "ORIGIN_MESSAGE_ID"),
    *("ORIGIN_MESSAGE_IDY_TIME",),  # as Pulsar spells it
}
"""Properties by which consumers' libraries retry messages."""

_OWN = 256  # bytes of metadata that the client adds, at most
_ADDRESSES = 10_000  # that are remembered
_RENAME = "Rename or remove it."


class ForPulsar(NamedTuple):
    """What Pulsar gets."""

    topic: str
    key: str | None
    ordering_key: str | None
    properties: Mapping[str, str]
    payload: bytes | None
    timestamp_ms: int


class ToPulsar:
    """Makes a message one for Pulsar, or says why it cannot be there unaltered."""

    def __init__(self, settings: PulsarSettings) -> None:
        self._topic = AddressTemplate(settings.topic)
        self._ordering_key = None if settings.ordering_key is None else AddressTemplate(settings.ordering_key)
        self._most = settings.max_message_size
        self._omits_nulls = settings.null_headers == "omit"
        self._good: set[str] = set()

    def __call__(self, message: Message) -> ForPulsar | Misfit:
        try:
            topic = self._topic(message)
            ordering_key = None if self._ordering_key is None else self._ordering_key(message)
        except NoAddress as why:
            return Misfit(str(why), "Correct sink.topic and sink.ordering_key, or the event.", "unroutable")
        if topic not in self._good and (fault := address_fault(topic)):
            reason = f"messages cannot go to the topic {topic!r}: {fault}"
            return Misfit(reason, "Correct sink.topic, or the topic.", "invalid_topic")
        if len(self._good) >= _ADDRESSES:
            self._good.clear()
        self._good.add(topic)
        size = len(message.value or b"") + len(message.key or b"") + _OWN
        properties: dict[str, str] = {}
        try:
            key = None if message.key is None else message.key.decode()
        except UnicodeDecodeError:
            return Misfit("the key is not UTF-8, and Pulsar's keys are text", "Correct the key, or have none.")
        for name, value in message.headers:
            if value is None and self._omits_nulls:
                continue
            if value is None or name in properties or name in _OBEYED:
                return _misfit(name, value)
            try:
                properties[name] = value.decode()
                size += len(name.encode()) + len(value) + 16
            except UnicodeError:
                return _misfit(name, value)
        if size > self._most:
            return Misfit(
                f"the message has {size} bytes with its headers, and sink.max_message_size is {self._most}",
                "Raise maxMessageSize of the brokers and of the bookies, and then sink.max_message_size.",
                "too_large",
            )
        return ForPulsar(topic, key, ordering_key, properties, message.value, message.timestamp_ms)


def partition(key: str, partitions: int) -> int:
    """As Java's client chooses it by default. What has no key is in the first."""
    return _hash(key) % partitions


@lru_cache(65_536)
def _hash(key: str) -> int:
    """Of a text, in Java."""
    units = memoryview(key.encode("utf-16-le", "surrogatepass")).cast("H")
    found = 0
    for unit in units:
        found = (31 * found + unit) & 0xFFFFFFFF
    return found & 0x7FFFFFFF


def _misfit(name: str, value: bytes | None) -> Misfit:
    """Of the first header that does not fit."""
    shown = repr(name if len(name) <= 40 else f"{name[:40]}...")
    if name in _OBEYED:
        return Misfit(f"consumers' libraries would obey the header {shown}", _RENAME)
    if value is None:
        return Misfit(f"the header {shown} has no value, and Pulsar has no such properties", "sink.null_headers: omit")
    try:
        name.encode()
    except UnicodeEncodeError:
        return Misfit(f"the name of the header {shown} is not UTF-8", _RENAME)
    try:
        value.decode()
    except UnicodeDecodeError:
        fix = "Encode its value, in Base64 for instance, or remove it."
        return Misfit(f"the header {shown} is not UTF-8, and Pulsar's properties are text", fix)
    return Misfit(f"the header {shown} is there twice, and Pulsar keeps one", "Rename or remove one of them.")
