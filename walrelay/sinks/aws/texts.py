"""A message as SQS and SNS have one: a text, attributes, and in FIFO a group and the id of a repetition. Pure.

What the services allow is in botocore's models and their guides; fakes of them take more.
"""

import re
from base64 import b64encode
from hashlib import sha256
from typing import Any, Literal, NamedTuple

from walrelay.model import EVENT_ID, REPLAYED, Message
from walrelay.sinks.aws.arns import name_of
from walrelay.sinks.aws.contract import EntryFault
from walrelay.sinks.aws.document import document
from walrelay.sinks.hosting import Misfit
from walrelay.sinks.repetitions import RepetitionIds

Format = Literal["text", "base64", "document"]

FIFO = ".fifo"
MOST_ATTRIBUTES = 10
_ALLOWED = re.compile("[\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]+")
_NAME = re.compile(r"(?!\.)(?!.*\.\.)[A-Za-z0-9_.-]{1,256}(?<!\.)")
_RESERVED = ("aws.", "amazon.")
_ID = re.compile(r"[!-~]{1,128}")  # of a group or a repetition: letters, digits and punctuation of ASCII
_LONGEST_EVENT_ID = 80
_RENAME = "Rename or remove it (`headers` in a rule), or set sink.format to document."


class TextMessage(NamedTuple):
    """`size`: as the services count it."""

    text: str
    attributes: dict[str, dict[str, Any]]
    size: int


class TextForm:
    """By the settings `format` and `key_header`."""

    def __init__(self, form: Format, key_header: str | None) -> None:
        self._format, self._key_header = form, key_header

    def __call__(self, message: Message) -> TextMessage | Misfit:
        text = self._text(message)
        if isinstance(text, Misfit):
            return text
        attributes = {} if self._format == "document" else self._attributes(message)
        if isinstance(attributes, Misfit):
            return attributes
        size = len(text.encode()) + sum(_size(name, attribute) for name, attribute in attributes.items())
        return TextMessage(text, attributes, size)

    def _text(self, message: Message) -> str | Misfit:
        if self._format == "document":
            made = document(message)
            if isinstance(made, Misfit):
                return made
            fits = _ALLOWED.fullmatch(made)
            return made if fits else Misfit("it has characters that AWS takes in no text", "Look at its payload.")
        if not message.value:
            return Misfit("its payload is empty, and AWS takes no empty text", "Set sink.format to document.")
        if self._format == "base64":
            return b64encode(message.value).decode()
        text = _decoded(message.value)
        if text is None:
            return Misfit(
                "its payload is no text, or has control characters or others that AWS takes in no text",
                "Set sink.format to base64 or document.",
            )
        return text

    def _attributes(self, message: Message) -> dict[str, dict[str, Any]] | Misfit:
        own = [] if self._key_header is None or message.key is None else [(self._key_header, message.key)]
        made: dict[str, dict[str, Any]] = {}
        for name, value in [*own, *message.headers]:
            if fault := _fault(name, value, name in made):
                return Misfit(fault, _RENAME)
            assert value is not None
            text = _decoded(value)
            if text is None:
                made[name] = {"DataType": "Binary", "BinaryValue": value}
            else:
                made[name] = {"DataType": "String", "StringValue": text}
        if len(made) > MOST_ATTRIBUTES:
            return Misfit(
                f"with its key it has {len(made)} headers, and a message has {MOST_ATTRIBUTES} attributes at most",
                "Remove headers (`headers` in a rule), or set sink.format to document.",
            )
        return made


class FifoIds:
    """Group and repetition of messages of one run, in the order of publishing."""

    def __init__(self) -> None:
        self._ids = RepetitionIds()

    def __call__(self, message: Message, place: str, made: TextMessage) -> dict[str, str]:
        """`place`: the queue or topic. The id of a repetition begins with the event's, where it can."""
        group = group_of(message)
        content = "\0".join([place, group, made.text, repr(made.attributes)]).encode(errors="surrogateescape")
        found = {name: value for name, value in message.headers if value}
        position = found.get("position", b"").decode(errors="replace")
        id_ = self._ids(content, position, replayed=found.get(REPLAYED[0]) == REPLAYED[1])
        event = (found.get(EVENT_ID) or found.get("id") or b"").decode(errors="replace")
        if _ID.fullmatch(event) and len(event) <= _LONGEST_EVENT_ID:
            id_ = f"{event}.{id_}"
        return {"MessageGroupId": group, "MessageDeduplicationId": id_}


def group_of(message: Message) -> str:
    """The key, or its hash where AWS would not take it; messages without a key are the group of their topic."""
    if message.key is None:
        text = message.topic
        name = text.encode(errors="surrogateescape")
    else:
        name = message.key
        text = name.decode(errors="replace")
    return text if _ID.fullmatch(text) else sha256(name).hexdigest()


def ordering_fault(place: str, *, fifo: bool) -> str:
    """Why what `sink.ordering` says cannot be had there."""
    if name_of(place).endswith(FIFO) == fifo:
        return ""
    if fifo:
        return "it keeps no order, as it is not FIFO (.fifo); sink.ordering: none would allow that"
    return "it is FIFO, and sink.ordering is none: set it to per_key"


def batch_faults(answer: dict[str, Any], entries: int) -> list[EntryFault | None]:
    """Of each entry, from an answer of SQS or SNS. What it does not name was not taken."""
    faults: dict[str, EntryFault | None] = {each["Id"]: None for each in answer.get("Successful", ())}
    for each in answer.get("Failed", ()):
        faults[each["Id"]] = EntryFault(each.get("Code", "?"), each.get("Message", ""), each.get("SenderFault"))
    missing = EntryFault("NoAnswer", "the answer does not name the entry")
    return [faults.get(str(number), missing) for number in range(entries)]


def _fault(name: str, value: bytes | None, twice: bool) -> str:
    shown = repr(name if len(name) <= 40 else f"{name[:40]}...")
    if not _NAME.fullmatch(name):
        return f"the header {shown} has a name that no attribute can have: up to 256 letters, digits, _, - and ."
    if name.lower().startswith(_RESERVED):
        return f"the header {shown} has a name of AWS's own"
    if twice:
        return f"the header {shown} is there twice"
    if not value:
        return f"the header {shown} has no value, and no attribute is empty"
    return ""


def _decoded(value: bytes) -> str | None:
    """None for what AWS does not take as a text."""
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return None
    return text if _ALLOWED.fullmatch(text) else None


def _size(name: str, attribute: dict[str, Any]) -> int:
    value = attribute.get("BinaryValue") or attribute["StringValue"].encode()
    return len(name) + len(attribute["DataType"]) + len(value)
