"""MassTransit's JSON envelope, `application/vnd.masstransit+json`: the payload as `message`, and beside it what
MassTransit knows about it. Ids are UUIDs and types are URNs, `urn:message:Acme.Events:TenantCreated`, because
MassTransit reads nothing else.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from walrelay.model import Message, OutboxRecord
from walrelay.route.envelopes.attributes import (
    Attribute,
    Check,
    given,
    guid,
    json_text,
    of_commit,
    of_role,
    quoted,
    timestamp,
    uri,
    values,
)
from walrelay.route.rules import templates
from walrelay.route.rules.fields import Field, Fields, Known
from walrelay.route.rules.rule import OWN_HEADERS, Wrap

_CONTENT = ("Content-Type", b"application/vnd.masstransit+json")
_HOST = '"host":{"machineName":"walrelay","processName":"walrelay"}'
_CHECKS: dict[str, Check] = {
    **dict.fromkeys(("requestId", "correlationId", "conversationId", "initiatorId"), guid),
    **dict.fromkeys(("sourceAddress", "destinationAddress", "responseAddress", "faultAddress"), uri),
    **dict.fromkeys(("expirationTime", "sentTime"), timestamp),
}
_TYPE = re.compile(r"([\w.+]+)(?:`\d+(\[.*\]))?(?:,.*)?", re.DOTALL)
_MEMORY = 1_000  # URNs that are kept; types are few, but nothing says so


class MassTransit(NamedTuple):
    """`message_types` and the values of `attributes` are templates. Without them the type is the record's, the time
    that of the commit.
    """

    message_types: tuple[str, ...] = ()
    attributes: tuple[tuple[str, str], ...] = ()

    @property
    def kind(self) -> str:
        """See `Envelope`."""
        return "masstransit"

    @property
    def needs(self) -> frozenset[str]:
        """See `Envelope`."""
        return frozenset() if self.message_types else frozenset({"type"})

    @property
    def parses(self) -> bool:
        """See `Envelope`."""
        return True

    @property
    def fields(self) -> list[Field]:
        """See `Envelope`."""
        texts = [*self.message_types, *(text for _, text in self.attributes)]
        return [field for text in texts for field in templates.fields(text)]

    @staticmethod
    def reserves(header: str) -> bool:
        """See `Envelope`."""
        return header.lower() == "content-type"

    def wrapping(self, fields: Fields) -> Wrap:
        """See `Envelope`."""
        urns = _Urns()
        types = [given("message type", text, fields, urns.of, required=True) for text in self.message_types]
        types = types or [of_role("message type", "type", urns.of, required=True)]
        found: dict[str, Attribute] = {"messageId": of_role("messageId", "id", guid, required=True)}
        for name, text in self.attributes:
            found[name] = given(name, text, fields, _CHECKS[name])
        found.setdefault("sentTime", of_commit("sentTime"))
        attributes = list(found.values())

        def wrapped(record: OutboxRecord, known: Known, message: Message) -> Message:
            members = [f'"{name}":{quoted(text)}' for name, text in values(attributes, record, known)]
            named = ",".join(quoted(urn) for _, urn in values(types, record, known))
            members += [f'"messageType":[{named}]', _headers(message), _HOST, f'"message":{_object(message.value)}']
            return message._replace(value=f"{{{','.join(members)}}}".encode(), headers=[*message.headers, _CONTENT])

        return wrapped


def attribute_name(text: str) -> str:
    """ValueError for what MassTransit's envelope does not have, or that is not free."""
    if text not in _CHECKS:
        raise ValueError(f"{text!r} is no attribute of MassTransit's envelope; known are {', '.join(_CHECKS)}")
    return text


def message_urn(name: str) -> str:
    """The URN of a type by its name in .NET, with or without its assembly; a URN as it is. ValueError for neither."""
    return name if name.startswith("urn:") else f"urn:message:{_message_name(name)}"


def _message_name(name: str) -> str:
    match = _TYPE.fullmatch(name.strip())
    if match is None:
        raise ValueError("is no name of a type in .NET")
    space, dot, last = match[1].rpartition(".")
    arguments = "" if match[2] is None else f"[{','.join(f'[{_message_name(each)}]' for each in _arguments(match[2]))}]"
    return f"{space}{':' if dot else ''}{last}{arguments}"


def _arguments(text: str) -> Iterator[str]:
    """The types in `[[A.B, Assembly],[C.D, Assembly]]`."""
    depth = start = 0
    for at, character in enumerate(text):
        if character == "[":
            depth += 1
            start = at + 1 if depth == 2 else start
        elif character == "]":
            depth -= 1
            if depth == 1:
                yield text[start:at]


class _Urns:
    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def of(self, name: str) -> str:
        urn = self._known.get(name)
        if urn is None:
            if len(self._known) >= _MEMORY:
                self._known.clear()
            urn = self._known[name] = message_urn(name)
        return urn


def _headers(message: Message) -> str:
    """Those of the row and its rule; where a name is repeated, the last one, as consumers have it."""
    own = {name: value for name, value in message.headers if name not in OWN_HEADERS}
    return f'"headers":{{{",".join(f"{quoted(name)}:{_header(name, value)}" for name, value in own.items())}}}'


def _header(name: str, value: bytes | None) -> str:
    try:
        return "null" if value is None else quoted(value.decode())
    except UnicodeDecodeError:
        raise ValueError(f"its header {name!r} is not UTF-8") from None


def _object(payload: bytes | None) -> str:
    text = "" if payload is None else json_text(payload).strip(" \t\r\n")
    if not text.startswith("{"):
        raise ValueError("its payload is not an object in JSON")
    return text
