"""What a message is at Pub/Sub: topic, data, attributes and ordering key; and which messages do not fit.

Google's servers count bytes. The limits are those of https://cloud.google.com/pubsub/quotas.
"""

from typing import Any, NamedTuple

from google.pubsub_v1.types import PubsubMessage

from walrelay.model import Message
from walrelay.sinks.address import AddressTemplate, NoAddress
from walrelay.sinks.hosting import Misfit
from walrelay.sinks.pubsub.names import full_name
from walrelay.sinks.pubsub.settings import PubsubSettings

_Message: Any = PubsubMessage.pb()

_ATTRIBUTES = 100
_NAME_BYTES = 256
_VALUE_BYTES = 1_024
_KEY_BYTES = 1_024
_REQUEST_BYTES = 10_000_000
_AROUND = 300  # bytes of a request beside its message: the topic, lengths
_RESERVED = "goog"
_RENAME = "Rename or remove it."


class PubsubOutgoing(NamedTuple):
    """`message`: of the class that gRPC's stub takes."""

    topic: str
    message: Any


class PubsubConversion:
    """Of a relay's messages."""

    def __init__(self, settings: PubsubSettings) -> None:
        self._topic, self._project = AddressTemplate(settings.topic), settings.project
        self._key_header = settings.key_header

    def __call__(self, message: Message) -> PubsubOutgoing | Misfit:
        """The message as it goes to Pub/Sub, or why it cannot go there unaltered."""
        try:
            address = self._topic(message)
        except NoAddress as why:
            return Misfit(str(why), "Correct sink.topic, or the event.", "unroutable")
        try:
            topic = full_name(self._topic.text, self._project, address)
        except ValueError as why:
            return Misfit(f"its topic {address!r} is none: {why}", "Correct sink.topic, or the topic.", "invalid_topic")
        attributes: dict[str, str] = {}
        own = [] if self._key_header is None or message.key is None else [(self._key_header, message.key)]
        for name, value in [*own, *message.headers]:
            text = _text(value)
            if fault := _fault(name, value, text, name in attributes):
                return Misfit(fault, _RENAME)
            assert text is not None
            attributes[name] = text
        if len(attributes) > _ATTRIBUTES:
            return Misfit(
                f"it has {len(attributes)} headers, and Pub/Sub takes {_ATTRIBUTES} attributes", "Remove some of them."
            )
        key = _text(message.key) if message.key is not None else ""
        if message.key is not None and (key is None or not 0 < len(message.key) <= _KEY_BYTES):
            return Misfit(
                f"its key is empty, not UTF-8, or longer than the {_KEY_BYTES:,} bytes that an ordering key may have",
                "Correct the event's aggregate_id.",
            )
        if not message.value and not attributes:
            return Misfit("it has neither a payload nor headers, and Pub/Sub has no such messages", "Give it a header.")
        made = _Message(data=message.value or b"", attributes=attributes, ordering_key=key)
        if (size := made.ByteSize()) > _REQUEST_BYTES - _AROUND:
            return Misfit(
                f"payload, headers and key have {size:,} bytes, and Pub/Sub takes {_REQUEST_BYTES:,} in a request",
                "Shorten the event, or let it have its payload elsewhere.",
                "too_large",
            )
        return PubsubOutgoing(topic, made)


def _text(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


def _fault(name: str, value: bytes | None, text: str | None, twice: bool) -> str:
    """What is wrong with an attribute."""
    if not name:
        return "a header has no name"
    shown = repr(name if len(name) <= 40 else f"{name[:40]}...")
    if value is None:
        return f"the header {shown} has no value, and Pub/Sub has no such attributes"
    if text is None:
        return f"the header {shown} is not UTF-8, and attributes are text"
    if twice:
        return f"the header {shown} is there twice, and Pub/Sub keeps one"
    try:
        size = len(name) if name.isascii() else len(name.encode())
    except UnicodeEncodeError:
        return f"the name of the header {shown} is not UTF-8"
    if size > _NAME_BYTES:
        return f"the name of the header {shown} has {size:,} bytes, and Pub/Sub takes {_NAME_BYTES}"
    if name.startswith(_RESERVED):
        return f"the header {shown} begins with {_RESERVED!r}, as Google's own do"
    if len(value) > _VALUE_BYTES:
        return f"the header {shown} has {len(value):,} bytes, and Pub/Sub takes {_VALUE_BYTES:,}"
    return ""
