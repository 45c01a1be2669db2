"""Headers as Spring Cloud Stream's Kafka binder writes them: `contentType`, and in `spring_json_header_types` the Java
class of each header, without which a consumer sees bytes instead of strings. The value is the payload. A name occurs
once, as in a map of Java's: of a header that is repeated, the last value.

To Spring a header `id` is the UUID of the message object; it fails on any other, or replaces it. So the event's id is
in `event_id`.
"""

import json
from typing import NamedTuple

from walrelay.model import EVENT_ID, Message, OutboxRecord
from walrelay.route.envelopes.attributes import constant, given, plain, values
from walrelay.route.rules import templates
from walrelay.route.rules.fields import Field, Fields, Known
from walrelay.route.rules.rule import Wrap

_TYPES = "spring_json_header_types"
_NEVER = frozenset({"timestamp", "deliveryAttempt", "scst_nativeHeadersPresent", "contentType", _TYPES, EVENT_ID})
_MEMORY = 1_000  # texts of header types that are kept


class Spring(NamedTuple):
    """`content_type` is a template; without it the content is JSON."""

    content_type: str | None = None

    @property
    def kind(self) -> str:
        """See `Envelope`."""
        return "spring"

    @property
    def needs(self) -> frozenset[str]:
        """See `Envelope`."""
        return frozenset()

    @property
    def parses(self) -> bool:
        """See `Envelope`."""
        return False

    @property
    def fields(self) -> list[Field]:
        """See `Envelope`."""
        return [] if self.content_type is None else templates.fields(self.content_type)

    @staticmethod
    def reserves(header: str) -> bool:
        """See `Envelope`."""
        return header in _NEVER

    def wrapping(self, fields: Fields) -> Wrap:
        """See `Envelope`."""
        written = self.content_type
        content = constant("contentType", "application/json")
        if written is not None:
            content = given("contentType", written, fields, plain, required=True)
        known_types: dict[tuple[str, ...], bytes] = {}

        def wrapped(record: OutboxRecord, known: Known, message: Message) -> Message:
            ((_, content_type),) = values([content], record, known)
            headers = {EVENT_ID if name == "id" else name: _read_back(value) for name, value in message.headers}
            headers["contentType"] = content_type.encode()
            strings = tuple(name for name, value in headers.items() if value is not None and _is_text(value))
            types = known_types.get(strings)
            if types is None:
                if len(known_types) >= _MEMORY:
                    known_types.clear()
                types = known_types[strings] = _types(strings)
            return message._replace(headers=[*headers.items(), (_TYPES, types)])

        return wrapped


def _types(names: tuple[str, ...]) -> bytes:
    return json.dumps(dict.fromkeys(names, "java.lang.String"), ensure_ascii=False, separators=(",", ":")).encode()


def _read_back(value: bytes | None) -> bytes | None:
    """A string that begins with a quote is read as JSON, so it has to be JSON."""
    if value is not None and value.startswith(b'"') and _is_text(value):
        return json.dumps(value.decode(), ensure_ascii=False).encode()
    return value


def _is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True
