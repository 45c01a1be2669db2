"""What a message is at NATS: subject, headers and payload, and the id by which a stream recognises a repetition."""

import re
from collections.abc import Mapping
from typing import NamedTuple

from walrelay.model import REPLAYED, Message
from walrelay.sinks.address import AddressTemplate, NoAddress
from walrelay.sinks.hosting import Misfit
from walrelay.sinks.nats.subjects import reserved_fault, subject_fault
from walrelay.sinks.repetitions import RepetitionIds

_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")  # what the client takes
_OBEYED = "nats-"
_STATUS = "Status"  # clients take a message with it for an answer of the server, and throw it away
_POSITION = "position"
_RENAME = "Rename or remove it."


class Outgoing(NamedTuple):
    """What NATS gets. `head`: the bytes of these headers at most."""

    subject: str
    headers: Mapping[str, str]
    payload: bytes
    head: int


class Conversion:
    """`key_header` as in the settings."""

    def __init__(self, subject: AddressTemplate, key_header: str | None) -> None:
        self._subject, self._key_header = subject, key_header

    def __call__(self, message: Message) -> Outgoing | Misfit:
        """The message as it goes to NATS, or why it cannot go there unaltered."""
        try:
            subject = self._subject(message)
        except NoAddress as why:
            return Misfit(str(why), "Correct sink.subject, or the event.", "unroutable")
        if fault := subject_fault(subject) or reserved_fault(subject):
            reason = f"its subject {subject!r} is none: {fault}"
            return Misfit(reason, "Correct sink.subject, or the topic.", "invalid_topic")
        headers: dict[str, str] = {}
        head = len("NATS/1.0\r\n\r\n")
        own = [] if self._key_header is None or message.key is None else [(self._key_header, message.key)]
        for name, value in [*own, *message.headers]:
            if (text := _text(name, value)) is None or name in headers:
                return _misfit(name, value)
            headers[name] = text
            head += len(name) + len(value or b"") + len(": \r\n")
        return Outgoing(subject, headers, message.value or b"", head)


class MessageIds:
    """See `walrelay.sinks.repetitions`."""

    def __init__(self) -> None:
        self._ids = RepetitionIds()

    def __call__(self, outgoing: Outgoing) -> str:
        subject, headers, payload, _ = outgoing
        replayed = headers.get(REPLAYED[0]) == REPLAYED[1].decode()
        return self._ids(as_bytes(subject, headers, payload), headers.get(_POSITION, ""), replayed=replayed)


def as_bytes(subject: str, headers: Mapping[str, str], payload: bytes) -> bytes:
    """Everything that a consumer sees of a message."""
    head = "\r\n".join([subject, *map(":".join, headers.items()), "", ""])
    return head.encode() + payload


def _text(name: str, value: bytes | None) -> str | None:
    """None where the client or the server would alter, obey or refuse the header."""
    if value is None or not _NAME.fullmatch(name) or name == _STATUS or name.lower().startswith(_OBEYED):
        return None
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return None
    return None if "\r" in text or "\n" in text or text != text.strip() else text


def _misfit(name: str, value: bytes | None) -> Misfit:
    """Of the first header that does not fit."""
    shown = repr(name if len(name) <= 40 else f"{name[:40]}...")
    if not _NAME.fullmatch(name):
        return Misfit(f"the header {shown} has a name that is no word of ASCII", _RENAME)
    if name.lower().startswith(_OBEYED):
        return Misfit(f"NATS would obey the header {shown}", _RENAME)
    if name == _STATUS:
        return Misfit("a header 'Status' makes clients take the message for an answer of the server", _RENAME)
    if value is None:
        return Misfit(f"the header {shown} has no value, and NATS has no such headers", _RENAME)
    if _text(name, value) is not None:
        return Misfit(f"the header {shown} is there twice, and the client sends one", "Rename or remove one of them.")
    return Misfit(
        f"the header {shown} is not UTF-8, or has blanks around it or a line's end, which the client would alter",
        "Encode its value, in Base64 for instance, or remove it.",
    )
