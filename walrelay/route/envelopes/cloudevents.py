"""CloudEvents 1.0.2 by the Kafka protocol binding: in binary mode the value is the payload, and the attributes are
headers `ce_...`; in structured mode the value is a JSON document with the attributes and the payload.
"""

import re
from base64 import b64encode
from typing import NamedTuple

from walrelay.model import Message, OutboxRecord
from walrelay.route.envelopes.attributes import (
    Attribute,
    constant,
    given,
    json_text,
    of_commit,
    of_role,
    plain,
    quoted,
    timestamp,
    uri,
    values,
)
from walrelay.route.rules import templates
from walrelay.route.rules.fields import Field, Fields, Known
from walrelay.route.rules.rule import Wrap

_STRUCTURED = ("content-type", b"application/cloudevents+json; charset=UTF-8")
_NAME = re.compile(r"[a-z0-9]{1,20}")
_SET = {
    "specversion": "always 1.0",
    "id": "the record's id",
    "source": "set beside `attributes`",
    "data": "the payload",
}
_CHECKS = {"time": timestamp, "dataschema": uri}


class CloudEvents(NamedTuple):
    """`source` and the values of `attributes` are templates. Without them the type is the record's, the subject its
    aggregate's id, the time that of the commit, and the content JSON.
    """

    source: str
    attributes: tuple[tuple[str, str], ...] = ()
    structured: bool = False

    @property
    def kind(self) -> str:
        """See `Envelope`."""
        return "cloudevents"

    @property
    def needs(self) -> frozenset[str]:
        """See `Envelope`."""
        return frozenset() if "type" in dict(self.attributes) else frozenset({"type"})

    @property
    def parses(self) -> bool:
        """See `Envelope`."""
        return self.structured

    @property
    def fields(self) -> list[Field]:
        """See `Envelope`."""
        texts = [self.source, *(text for _, text in self.attributes)]
        return [field for text in texts for field in templates.fields(text)]

    @staticmethod
    def reserves(header: str) -> bool:
        """See `Envelope`."""
        return header.lower().startswith("ce_") or header.lower() == "content-type"

    def wrapping(self, fields: Fields) -> Wrap:
        """See `Envelope`."""
        attributes = [*self._compiled(fields)]
        wrap = _structured if self.structured else _binary

        def wrapped(record: OutboxRecord, known: Known, message: Message) -> Message:
            return wrap(dict(values(attributes, record, known)), message)

        return wrapped

    def _compiled(self, fields: Fields) -> list[Attribute]:
        found = {
            "specversion": constant("specversion", "1.0"),
            "id": of_role("id", "id", plain, required=True),
            "source": given("source", self.source, fields, uri, required=True),
            "type": of_role("type", "type", plain, required=True),
            "subject": of_role("subject", "aggregate_id", plain),
            "time": of_commit("time"),
            "datacontenttype": constant("datacontenttype", "application/json"),
        }
        for name, text in self.attributes:
            found[name] = given(name, text, fields, _CHECKS.get(name, plain), required=name == "type")
        return list(found.values())


def attribute_name(text: str) -> str:
    """ValueError for an attribute that CloudEvents cannot have, or that is not free."""
    if text in _SET:
        raise ValueError(f"{text!r} is {_SET[text]}")
    if not _NAME.fullmatch(text):
        raise ValueError(f"{text!r} is no attribute of CloudEvents: 1 to 20 of the characters a-z and 0-9")
    return text


def _binary(attributes: dict[str, str], message: Message) -> Message:
    content = attributes.pop("datacontenttype", None)
    headers = [*message.headers, *((f"ce_{name}", text.encode()) for name, text in attributes.items())]
    if content is not None:
        headers.append(("content-type", content.encode()))
    return message._replace(headers=headers)


def _structured(attributes: dict[str, str], message: Message) -> Message:
    members = [f'"{name}":{quoted(text)}' for name, text in attributes.items()]
    if message.value is not None:
        members.append(_data(attributes.get("datacontenttype", "application/json"), message.value))
    return message._replace(value=f"{{{','.join(members)}}}".encode(), headers=[*message.headers, _STRUCTURED])


def _data(content: str, payload: bytes) -> str:
    """JSON as it was written, text as a string, anything else in base64."""
    media = content.partition(";")[0].strip().lower()
    if media.endswith(("/json", "+json")):
        return f'"data":{json_text(payload)}'
    if media.startswith("text/") or media.endswith(("/xml", "+xml")):
        try:
            return f'"data":{quoted(payload.decode())}'
        except UnicodeDecodeError:
            raise ValueError(f"its payload is {content} by datacontenttype, but not UTF-8") from None
    return f'"data_base64":"{b64encode(payload).decode()}"'
