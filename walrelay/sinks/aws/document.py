"""A message as one JSON object, for services that have no headers: nothing of it is lost, and its payload stays as it
was written.

    {"topic": "orders", "key": "42", "headers": {"id": "7", "type": "OrderPlaced"}, "value": {"total": 1.10}}
"""

import json
from base64 import b64encode

from walrelay.model import Message
from walrelay.route.envelopes.attributes import json_text, quoted
from walrelay.sinks.hosting import Misfit

RELAYS_OWN = frozenset({"id", "event_id", "type", "position", "replayed", "content-type", "Content-Type"})
"""Headers that the relay and its envelopes set. A payload sent alone goes without them."""


def document(message: Message) -> str | Misfit:
    """A key or payload that cannot stand there as it is becomes `key_base64` or `value_base64`; what is null is left
    out, and is none of an empty text. A header that is not UTF-8 becomes `{"base64": "..."}`.
    """
    headers: dict[str, str] = {}
    for name, value in message.headers:
        if name in headers:
            return Misfit(f"the header {name[:40]!r} is there twice", "Rename or remove one of them.")
        if any(0xD800 <= ord(letter) <= 0xDFFF for letter in name):
            return Misfit(f"the header {name[:40]!r} has a name that is not UTF-8", "Rename or remove it.")
        headers[name] = _header(value)
    members = [f'"topic":{quoted(message.topic)}']
    if message.key is not None:
        text = _text(message.key)
        members.append(f'"key_base64":"{_base64(message.key)}"' if text is None else f'"key":{quoted(text)}')
    members.append('"headers":{' + ",".join(f"{quoted(name)}:{value}" for name, value in headers.items()) + "}")
    if message.value is not None:
        members.append(_value(message.value))
    return f"{{{','.join(members)}}}"


def alone(message: Message) -> bytes | Misfit:
    """The payload, where it is sent without the headers: those of the row would be lost, so it must have none."""
    lost = [name for name, _ in message.headers if name not in RELAYS_OWN and not name.startswith("ce_")]
    if lost:
        return Misfit(
            f"its header {lost[0][:40]!r} would be lost, as sink.format sends the payload alone",
            "Set sink.format to document, or remove the header (`headers` in a rule).",
        )
    if message.value is None:
        return Misfit("it has no payload, and sink.format sends the payload alone", "Set sink.format to document.")
    return message.value


def is_object(text: str) -> bool:
    """Whether that is a JSON object by the letter of JSON, which has no NaN."""
    try:
        return isinstance(json.loads(text, parse_constant=_no_constant), dict)
    except (ValueError, RecursionError):
        return False


def _no_constant(name: str) -> None:
    raise ValueError(name)


def _header(value: bytes | None) -> str:
    if value is None:
        return "null"
    text = _text(value)
    return f'{{"base64":"{_base64(value)}"}}' if text is None else quoted(text)


def _value(payload: bytes) -> str:
    try:
        return f'"value":{json_text(payload)}'
    except ValueError:
        return f'"value_base64":"{_base64(payload)}"'


def _base64(value: bytes) -> str:
    return b64encode(value).decode()


def _text(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None
