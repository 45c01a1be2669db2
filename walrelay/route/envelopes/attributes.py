"""The attributes of an envelope: texts that a record or a template gives, checked for what they have to be.

What is wrong with a text is said without the text: it may be of the payload, which logs have no business with.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from walrelay.model import OutboxRecord
from walrelay.route.rules.fields import Fields, Known, parsed
from walrelay.route.rules.templates import MissingText, Render, renderer

Check = Callable[[str], str]
"""The text as it is to be written; ValueError for one that does not suit."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_CONTROLS = re.compile(r"[\0-\x1f\x7f-\x9f\ud800-\udfff]")
_URI = re.compile(r"[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=%]+")
_GUID = re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")


class Attribute(NamedTuple):
    """`read` raises MissingText where the record has no value. One that is not required is then left out."""

    name: str
    read: Render
    check: Check | None = None
    required: bool = False


def given(name: str, template: str, fields: Fields, check: Check, *, required: bool = False) -> Attribute:
    """An attribute by a template of the settings."""
    return Attribute(name, renderer(template, fields), check, required)


def of_role(name: str, role: str, check: Check, *, required: bool = False) -> Attribute:
    """An attribute that is a role of the record."""
    place = OutboxRecord._fields.index(role)

    def read(record: OutboxRecord, known: Known) -> str:
        value = record[place]
        if type(value) is not str:
            raise MissingText(f"{role} is missing")
        return value

    return Attribute(name, read, check, required)


def of_commit(name: str) -> Attribute:
    """The time of the commit."""
    last, written = 0, utc(0)

    def read(record: OutboxRecord, known: Known) -> str:
        nonlocal last, written
        if record.committed_at != last:  # the text is the same for all records of a transaction
            last, written = record.committed_at, utc(record.committed_at)
        return written

    return Attribute(name, read)


def constant(name: str, text: str) -> Attribute:
    return Attribute(name, lambda record, known: text)


def values(attributes: Iterable[Attribute], record: OutboxRecord, known: Known) -> Iterator[tuple[str, str]]:
    """Names and texts. ValueError where one does not suit, or a required one is missing or empty."""
    for name, read, check, required in attributes:
        try:
            text = read(record, known)
        except MissingText as why:
            if required:
                raise ValueError(f"there is no {name}: {why}") from None
            continue
        if not text:
            if required:
                raise ValueError(f"the {name} is empty")
            continue
        if check is not None:
            try:
                text = check(text)
            except ValueError as why:
                raise ValueError(f"the {name} {why}") from None
        yield name, text


def plain(text: str) -> str:
    """Text that each protocol can carry."""
    if not text.isprintable() and _CONTROLS.search(text):  # the first is fast, and false for some texts
        raise ValueError("has characters that are no text")
    return text


def uri(text: str) -> str:
    """A URI or a reference to one."""
    if not _URI.fullmatch(text):
        raise ValueError("is no URI")
    return text


def guid(text: str) -> str:
    """As .NET writes one."""
    if not _GUID.fullmatch(text):
        raise ValueError("is no UUID")
    return text


def timestamp(text: str) -> str:
    """A time as PostgreSQL or ISO 8601 writes it, in UTC; without a zone it is taken for UTC."""
    try:
        time = datetime.fromisoformat(text)
        return _written(time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC))
    except (ValueError, OverflowError):
        raise ValueError("is no time") from None


def utc(microseconds: int) -> str:
    """`2026-11-21T09:58:54.956040Z` for microseconds since 1970."""
    return _written(_EPOCH + timedelta(microseconds=microseconds))


def _written(time: datetime) -> str:
    return time.isoformat(timespec="microseconds")[:-6] + "Z"


def json_text(payload: bytes) -> str:
    """The payload as it is; ValueError if it is not JSON."""
    try:
        text = payload.decode()
    except UnicodeDecodeError:
        raise ValueError("its payload is not JSON, as it is not UTF-8") from None
    if parsed(text) is None and text.strip(" \t\r\n") != "null":
        raise ValueError("its payload is not JSON")
    return text


quoted: Callable[[str], str] = json.JSONEncoder(ensure_ascii=False).encode
"""The text in JSON."""
