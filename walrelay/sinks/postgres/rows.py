"""Messages as rows of COPY's text format. Pure.

Nothing is altered on the way: text is UTF-8 without a zero byte, because PostgreSQL has no other, and headers are an
object, so each name is there once. What does not fit is refused.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from json.encoder import encode_basestring

from walrelay.model import EVENT_ID, Message
from walrelay.sinks.hosting.sink import Misfit

_NULL = b"\\N"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Role(StrEnum):
    """Of a column."""

    ID = "id"
    TOPIC = "topic"
    KEY = "key"
    VALUE = "value"
    HEADERS = "headers"
    TIMESTAMP = "timestamp"


class Unfit(Exception):
    """A message that no row of the table can hold as it is; the text says why."""


Encode = Callable[[Message], bytes]


def header_misfit(headers: Sequence[tuple[str, bytes | None]]) -> Misfit | None:
    """Why an object of texts cannot have these headers."""
    names = set()
    for name, value in headers:
        if name in names:
            return Misfit(f"the header {name!r} is there twice, and an object has it once", "Rename or remove one.")
        names.add(name)
        if not _is_storable(name):
            return Misfit(f"PostgreSQL cannot store the name of the header {name!r}", "Rename or remove it.")
        if value is not None and (fault := _text_fault(value)):
            return Misfit(f"the header {name!r} {fault}", "Correct or remove it; or set sink.columns.headers to null.")
    return None


@lru_cache(1_000)
def _is_storable(name: str) -> bool:
    return "\0" not in name and not any(0xD800 <= ord(letter) <= 0xDFFF for letter in name)


def encoder(columns: Mapping[Role, str], types: Mapping[str, str]) -> Encode:
    """Makes rows of these columns. `types`: the base type of each column, by its name. Raises Unfit."""
    makes = [_of(role, types[column]) for role, column in columns.items()]
    return lambda message: b"\t".join([make(message) for make in makes]) + b"\n"


def _of(role: Role, type_: str) -> Encode:
    written = _hex if type_ == "bytea" else _text
    match role:
        case Role.ID:
            return lambda message: written(_id(message), "the id")
        case Role.TOPIC:
            return lambda message: written(_utf8(message.topic), "the topic")
        case Role.KEY:
            return lambda message: written(message.key, "the key")
        case Role.VALUE:
            return lambda message: written(message.value, "the value")
        case Role.HEADERS:
            return lambda message: written(_headers(message), "the object of headers")
    return lambda message: _time(message.timestamp_ms)


@lru_cache(1_000)
def _time(milliseconds: int) -> bytes:
    """Messages of a transaction have the same."""
    return (_EPOCH + timedelta(milliseconds=milliseconds)).isoformat().encode()


def _id(message: Message) -> bytes | None:
    for name, value in message.headers:
        if name in ("id", EVENT_ID):
            return value
    return None


def _headers(message: Message) -> bytes:
    members = [
        f"{_name(name)}: {'null' if value is None else encode_basestring(value.decode())}"
        for name, value in message.headers
    ]
    return f"{{{', '.join(members)}}}".encode()


_name = lru_cache(1_000)(encode_basestring)


def _text(value: bytes | None, what: str) -> bytes:
    if value is None:
        return _NULL
    if fault := _text_fault(value):
        raise Unfit(f"{what} {fault}")
    return _escaped(value)


def _hex(value: bytes | None, what: str) -> bytes:
    return _NULL if value is None else b"\\\\x" + value.hex().encode()


def _text_fault(value: bytes) -> str:
    if b"\0" in value:
        return "has a zero byte, which PostgreSQL's text cannot have"
    if not value.isascii():
        try:
            value.decode()
        except UnicodeDecodeError:
            return "is not UTF-8"
    return ""


def _escaped(text: bytes) -> bytes:
    text = text.replace(b"\\", b"\\\\") if b"\\" in text else text
    return text.replace(b"\n", b"\\n").replace(b"\r", b"\\r").replace(b"\t", b"\\t")


def _utf8(text: str) -> bytes:
    return text.encode(errors="surrogateescape")
