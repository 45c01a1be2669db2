"""The content of a logical message that is an outbox record: a JSON object with the roles as keys.

    {"id": "...", "aggregate_type": "order", "aggregate_id": "42", "type": "placed", "payload": {...}}

`payload` and `headers` keep their JSON text unchanged, blanks and digits included, because a payload
reaches the broker unchanged; the other roles are strings (or numbers, as they are written).
"""

import json
import re
from codecs import BOM_UTF8
from collections.abc import Iterator
from typing import NoReturn

from walrelay.decode.contract import REQUIRED, Columns, OutboxLayout, Skips
from walrelay.decode.records import is_skipped, record_of, skipped
from walrelay.errors import Undecodable
from walrelay.json_text import NestedTooDeeply, has_half_pair, refuse_depth
from walrelay.lsn import LSN
from walrelay.model import AnyRecord, RecordPosition, Skipped, Undecoded

AS_THEY_ARE = frozenset({"UTF8", "SQL_ASCII"})  # SQL_ASCII says nothing about the bytes

# Single bytes: tests/integration/relaying/test_encodings.py compares every one of them with the server.
CODECS = {
    **{f"LATIN{number}": f"iso8859-{part}" for number, part in enumerate((1, 2, 3, 4, 9, 10, 13, 14, 15, 16), 1)},
    **{f"ISO_8859_{part}": f"iso8859-{part}" for part in (5, 6, 7, 8)},
    **{f"WIN{page}": f"cp{page}" for page in (866, 874, 1250, 1251, 1252, 1253, 1254, 1255, 1256, 1257, 1258)},
    "KOI8R": "koi8-r",
    "KOI8U": "koi8-u",
}


def in_utf8(content: bytes, encoding: str) -> bytes:
    """The content without its byte order mark; `encoding`: the server's name for the database's. ValueError if the
    meaning of the bytes is not known.
    """
    if content.startswith(BOM_UTF8):
        return content.removeprefix(BOM_UTF8)
    if encoding in AS_THEY_ARE or content.isascii():  # all encodings of a server have ASCII in them
        return content
    if encoding not in CODECS:
        raise ValueError(f"its text is in the database's encoding, {encoding}, which walrelay cannot convert")
    return str(content, CODECS[encoding]).encode()


_VERBATIM = frozenset({"payload", "headers"})
_SHOWN = 100  # characters of a key, which may have millions
_BLANKS = re.compile(r"[ \t\n\r]*")


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")  # Python's decoder accepts it, and a consumer's would not


# Numbers of any length, kept as they are written.
_DECODER = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=_no_constant)


def message_event(
    content: bytes, commit_lsn: LSN, ordinal: int, committed_at: int, outbox: OutboxLayout, skips: Skips
) -> AnyRecord | Skipped:
    """A transactional logical message with the outbox's prefix, as a record, or as the reason why it is none."""
    try:
        fields = message_fields(content, str(RecordPosition(commit_lsn, ordinal)), outbox.encoding)
    except Undecodable as error:
        if is_skipped(skips, commit_lsn, ordinal):
            return skipped(commit_lsn, ordinal, error)
        return Undecoded(commit_lsn, ordinal, committed_at, outbox.prefix or "", content, str(error), error.hint)
    return record_of(commit_lsn, ordinal, committed_at, fields)


def message_fields(content: bytes, position: str, encoding: str = "UTF8") -> list[bytes | None]:
    """The roles' values as UTF-8 text, in the order of `Columns`; Undecodable, naming `position`, for anything else.
    `encoding`: the database's.
    """
    text = str(utf8_content(content, position, encoding), "utf-8", "surrogateescape")
    fields: dict[str, str | None] = {}
    try:
        refuse_depth(text, around=1)
        for role, value in members_of(text):
            if role not in Columns._fields or role in fields:
                raise ValueError(f"key {role[:_SHOWN]!r} is {'there twice' if role in fields else 'not a role'}")
            fields[role] = found = _value(role, value)
            if role not in _VERBATIM and found is not None and has_half_pair(text, found):
                raise ValueError(f"{role} holds half of a surrogate pair, which is no text")
        missing = REQUIRED - fields.keys()
        if missing or fields["id"] is None:
            raise ValueError(f"no {', '.join(sorted(missing)) or 'id'}")
        values = (fields.get(role) for role in Columns._fields)
        return [None if value is None else value.encode("utf-8", "surrogateescape") for value in values]
    except ValueError as cause:
        raise _undecodable(position, str(cause)) from cause
    except RecursionError as cause:
        raise _undecodable(position, str(NestedTooDeeply())) from cause


def utf8_content(content: bytes, position: str, encoding: str) -> bytes:
    """The content in UTF-8; Undecodable, naming `position`, if the meaning of its bytes is not known."""
    try:
        return in_utf8(content, encoding)
    except ValueError as cause:
        raise Undecodable(
            f"the logical message at {position} cannot be read: {cause}",
            hint="Emit events with walrelay.emit_message (`walrelay init` creates it) or Python's"
            " Outbox; or give pg_logical_emit_message UTF-8 behind its mark:"
            f" decode('efbbbf', 'hex') || convert_to(..., 'UTF8').{_way_on(position)}",
        ) from cause


def _undecodable(position: str, why: str) -> Undecodable:
    return Undecodable(
        f"the logical message at {position} is not an outbox record: {why}",
        hint="Emit a JSON object with the keys " + ", ".join(Columns._fields) + " (id and payload required); give"
        " messages that are not events another prefix than outbox.messages.prefix."
        f"{_way_on(position)}",
    )


def _way_on(position: str) -> str:
    return (
        f" This message cannot be changed in the WAL: `walrelay skip --position {position}` skips it, and"
        " `refusals: {policy: dead_letter}` in the settings makes all such messages dead letters."
    )


def _value(role: str, text: str) -> str | None:
    if text == "null":
        return None
    if role in _VERBATIM:
        return text
    value = json.loads(text)
    if isinstance(value, str):
        return value
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return text
    raise ValueError(f"{role} is neither a string nor a number")


def members_of(text: str) -> Iterator[tuple[str, str]]:
    """The members of a JSON object, each value as its own unchanged text; ValueError for anything else."""
    at = _expect(text, 0, "{")
    if text[at : at + 1] == "}":
        at = _skip(text, at + 1)
    else:
        while True:
            key, at = _DECODER.raw_decode(text, at)
            if not isinstance(key, str):
                raise ValueError("not a JSON object")
            start = _expect(text, _skip(text, at), ":")
            _, at = _DECODER.raw_decode(text, start)
            yield key, text[start:at]
            at = _skip(text, at)
            if text[at : at + 1] == "}":
                at = _skip(text, at + 1)
                break
            at = _expect(text, at, ",")
    if at != len(text):
        raise ValueError("there is more text after the JSON object")


def _expect(text: str, at: int, what: str) -> int:
    at = _skip(text, at)
    if text[at : at + 1] != what:
        raise ValueError(f"not a JSON object: {what!r} expected at character {at}")
    return _skip(text, at + 1)


def _skip(text: str, at: int) -> int:
    match = _BLANKS.match(text, at)
    return match.end() if match else at
