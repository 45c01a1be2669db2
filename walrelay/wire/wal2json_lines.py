"""Rows as lines of wal2json's format version 2, byte for byte as the plugin prints them with its default options.

The plugin prints what PostgreSQL's output functions print, so the text values of pgoutput are enough. It escapes as
PostgreSQL's `escape_json` does: quote, backslash and control characters, and nothing else. Lines are in the encoding
of the text that comes in, and have no newline at their end. One difference is left: the plugin prints generated
columns, which pgoutput does not send.
"""

from collections.abc import Iterable
from typing import NamedTuple

from walrelay.wire.wal2json import BYTEA, NULL_OR_NAN

BEGIN = b'{"action":"B"}'
COMMIT = b'{"action":"C"}'

_BOOL = 16
_NUMBERS = frozenset({20, 21, 23, 26}) | NULL_OR_NAN  # int8, int2, int4, oid
_NOT_JSON = ("nan", "infinity", "-infinity")

_ESCAPES = {code: f"\\u{code:04x}" for code in range(0x20)} | {
    ord(character): f"\\{letter}" for character, letter in zip('"\\\b\f\n\r\t', '"\\bfnrt', strict=True)
}


class ColumnText(NamedTuple):
    """One column of a row: `type_name` as format_type prints it with the type modifier, `text` None for NULL."""

    name: str
    type_name: str
    type_oid: int
    text: str | None


def insert(schema: str, table: str, columns: Iterable[ColumnText]) -> bytes:
    printed = ",".join(
        f'{{"name":{_quoted(name)},"type":{_type(type_name)},"value":{_value(type_oid, text)}}}'
        for name, type_name, type_oid, text in columns
    )
    return _bytes(f'{{"action":"I","schema":{_quoted(schema)},"table":{_quoted(table)},"columns":[{printed}]}}')


def logical_message(*, transactional: bool, prefix: str, content: bytes) -> bytes:
    """The plugin reads the content as a C string: it ends at the first NUL."""
    text = str(content.partition(b"\0")[0], "utf-8", "surrogateescape")
    flag = "true" if transactional else "false"
    return _bytes(f'{{"action":"M","transactional":{flag},"prefix":{_quoted(prefix)},"content":{_quoted(text)}}}')


def _value(type_oid: int, text: str | None) -> str:
    if text is None:
        return "null"
    if type_oid in _NUMBERS:
        return "null" if text.lower().startswith(_NOT_JSON) else text
    if type_oid == _BOOL:
        return "true" if text == "t" else "false"
    if type_oid == BYTEA:
        return _quoted(text[2:])  # without \x
    return _quoted(text)


def _type(name: str) -> str:
    """The plugin prints a name in double quotes as it is, as if it were a JSON string: "Odd Schema".mood makes invalid
    JSON.
    """
    return name if name.startswith('"') and not name.endswith("]") else _quoted(name)


def _quoted(text: str) -> str:
    return f'"{text.translate(_ESCAPES)}"'


def _bytes(line: str) -> bytes:
    return line.encode("utf-8", "surrogateescape")
