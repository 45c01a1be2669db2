"""What a message is at Service Bus: its properties, and whether they fit. Pure.

What Service Bus or its client would refuse, cut or mistake is refused beforehand.
"""

import re
from collections import Counter
from collections.abc import Mapping
from hashlib import blake2b
from typing import NamedTuple
from uuid import uuid4

from walrelay.model import REPLAYED, Message
from walrelay.sinks.address import AddressTemplate, NoAddress
from walrelay.sinks.hosting import Misfit

_LONGEST_ID = 128  # characters of a message id and of a session id
_PROPERTY = 32 * 2**10  # bytes of one
_PROPERTIES = 63 * 2**10  # of all; the broker counts up to 64 KiB, with a few of its own
_OVERHEAD = 10  # bytes around each
_LONGEST_NAME = 260
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._/-]*[A-Za-z0-9])?")
_KNOWN = {"content-type": "content_type", "correlation_id": "correlation_id", "id": "message_id", "subject": "subject"}
_UUID = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")
_TYPE = "type"  # the subject of messages that have no header of that name
_POSITION = "position"
_SHORT = 255  # bytes of a header that becomes a property of Service Bus's own
_RENAME = "Rename or remove it (`headers` in a rule)."


class EntityMessage(NamedTuple):
    """What Service Bus gets. `known`: the properties of its own. `size`: so many bytes at least."""

    entity: str
    session_id: str | None
    known: Mapping[str, str]
    properties: Mapping[str, str | None]
    body: bytes
    size: int


def entity_fault(name: str) -> str:
    """Why Service Bus could have no queue or topic of that name; empty if it may."""
    if len(name) > _LONGEST_NAME:
        return f"it has more than {_LONGEST_NAME} characters"
    if not _NAME.fullmatch(name):
        return "it has letters, digits and . - _ / only, and begins and ends with a letter or digit"
    return ""


class FittingMessages:
    """The other arguments are as in the settings."""

    def __init__(
        self, entity: AddressTemplate, *, session_ids: bool, key_header: str | None, content_type: str | None
    ) -> None:
        self._entity, self._session_ids = entity, session_ids
        self._key_header, self._content_type = key_header, content_type

    def __call__(self, message: Message) -> EntityMessage | Misfit:
        """The message as it goes to Service Bus, or why it cannot go there unaltered."""
        try:
            entity = self._entity(message)
        except NoAddress as why:
            return Misfit(str(why), "Correct sink.entity, or the event.", "unroutable")
        if fault := entity_fault(entity):
            reason = f"{entity[:80]!r} is no name for a queue or topic: {fault}"
            return Misfit(reason, "Correct sink.entity, or the topic.", "invalid_topic")
        session_id = None
        if self._session_ids and message.key is not None:
            session_id = _text(message.key)
            if session_id is None or len(session_id) > _LONGEST_ID:
                return Misfit(
                    f"its key {message.key[:40]!r} is no session id: that is UTF-8 of at most {_LONGEST_ID} characters",
                    "Correct the key, or set sink.session_ids to false.",
                )
        headers = message.headers
        if self._key_header is not None and message.key is not None:
            headers = [(self._key_header, message.key), *headers]
        properties: dict[str, str | None] = {}
        known: dict[str, str] = {}
        size = len(message.key or b"")
        for name, value in headers:
            text = _text(value)
            if fault := _header_fault(name, value, text, properties):
                return Misfit(fault, _RENAME)
            properties[name] = text
            size += len(name) + len(value or b"") + _OVERHEAD
            known_as = _KNOWN.get(name.lower())
            if known_as is not None and text is not None and len(text.encode()) <= _SHORT:
                known[known_as] = text
        if size > _PROPERTIES:
            reason = f"key and headers have {size:,} bytes, and Service Bus takes {_PROPERTIES:,}"
            return Misfit(reason, "Shorten or remove headers.")
        type_ = properties.get(_TYPE)
        if "subject" not in known and type_ is not None and len(type_.encode()) <= _SHORT:
            known["subject"] = type_
        if "content_type" not in known and self._content_type is not None:
            known["content_type"] = self._content_type
        body = message.value or b""
        return EntityMessage(entity, session_id, known, properties, body, size + len(body))


class DistinctIds:
    """Of one run, in the order of publishing: the record's id, but an entity that detects duplicates drops what has the
    id of another message, and says that it has accepted it. So what may have that has something behind the id: the
    record's second message there, what is published once more on purpose, and all messages of records whose id is no
    UUID, as another table or database counts as well.
    """

    def __init__(self) -> None:
        self._record: tuple[object, str] | None = None
        self._given: dict[str, Counter[str]] = {}  # to messages of the record, by entity

    def __call__(self, outgoing: EntityMessage) -> EntityMessage:
        id_ = outgoing.known.get("message_id")
        if id_ is None:
            return outgoing
        behind = self._behind(outgoing, id_)
        shown = id_[: _LONGEST_ID - len(behind)]
        return outgoing._replace(known={**outgoing.known, "message_id": f"{shown}{behind}"})

    def _behind(self, outgoing: EntityMessage, id_: str) -> str:
        name, value = REPLAYED
        if outgoing.properties.get(name) == value.decode():
            return f"-{uuid4().hex}"
        record = outgoing.properties.get(_POSITION), id_
        if record != self._record:
            self._record, self._given = record, {}
        if outgoing.entity not in self._given:
            self._given[outgoing.entity] = Counter()
            if _UUID.fullmatch(id_):
                return ""
        content = repr((outgoing.session_id, *outgoing.properties.items())).encode() + outgoing.body
        found = blake2b(content, digest_size=16).hexdigest()
        self._given[outgoing.entity][found] += 1
        alike = self._given[outgoing.entity][found]
        return f"-{found}" + (f"-{alike}" if alike > 1 else "")


def _header_fault(name: str, value: bytes | None, text: str | None, before: Mapping[str, object]) -> str:
    shown = repr(name if len(name) <= 40 else f"{name[:40]}...")
    if not name:
        return "a header has no name"
    if any(0xD800 <= ord(letter) <= 0xDFFF for letter in name):
        return f"the name of the header {shown} is not UTF-8"
    if name in before:
        return f"the header {shown} is there twice, and Service Bus has one of a name"
    if value is not None and text is None:
        return f"the header {shown} is not UTF-8, which the client would not send"
    if len(name) + len(value or b"") + _OVERHEAD > _PROPERTY:
        return f"the header {shown} has {len(value or b''):,} bytes, and Service Bus takes {_PROPERTY:,} with its name"
    return ""


def _text(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None
