"""Lists and hstore values as PostgreSQL prints them."""

import re
from collections.abc import Iterator

_BOUNDS = re.compile(r"(?:\[-?\d+:-?\d+\])+=")
_ITEM = re.compile(r'"((?:[^"\\]|\\.)*)"|([^{},"]+)', re.DOTALL)
_PAIR = re.compile(r'"((?:[^"\\]|\\.)*)"=>(?:"((?:[^"\\]|\\.)*)"|NULL)(?:, |$)', re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


_NAMED = {"", "infinity", "-infinity", "Infinity", "-Infinity", "NaN"}


def told(text: str) -> str:
    """How an error names a value: no log shows what an event holds."""
    return repr(text) if text in _NAMED else "the value"


def items(text: str) -> Iterator[str | None]:
    """Of an array of one dimension; ValueError for one of several."""
    inner = _BOUNDS.sub("", text, count=1)[1:-1]
    at = 0
    while at < len(inner):
        match = _ITEM.match(inner, at)
        if match is None:
            raise ValueError(f"{told(text)} is a list of lists, of which Debezium makes NULL")
        quoted, plain = match.groups()
        yield _ESCAPE.sub(r"\1", quoted) if quoted is not None else None if plain == "NULL" else plain
        at = match.end() + 1  # the comma


def pairs(text: str) -> dict[str, str | None]:
    """Of an hstore value, in the order in which Debezium has them: that of a HashMap of Java."""
    found = dict[str, str | None]()
    for match in _PAIR.finditer(text):
        key, value = match.groups()
        found[_ESCAPE.sub(r"\1", key)] = None if value is None else _ESCAPE.sub(r"\1", value)
    buckets = 16
    while len(found) > buckets * 3 // 4:
        buckets *= 2
    return {key: found[key] for key in sorted(found, key=lambda key: _java_hash(key) % buckets)}


def _java_hash(text: str) -> int:
    """Of String.hashCode, as HashMap spreads it."""
    units = text.encode("utf-16-be", "surrogatepass")
    found = 0
    for at in range(0, len(units), 2):
        found = (31 * found + int.from_bytes(units[at : at + 2])) & 0xFFFF_FFFF
    return found ^ found >> 16
