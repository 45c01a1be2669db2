"""Payloads with fields redacted, and parts of payloads. What stays is as it was written, to the digit and the blank."""

import json
import re
from collections.abc import Iterator

from walrelay.route.rules.fields import parsed

Path = tuple[str, ...]
Part = tuple[int, int]  # where it begins in the text, and where it ends

_DECODER = json.JSONDecoder(parse_int=str, parse_float=str)
_BLANKS = re.compile(r"[ \t\n\r]*")


def redacted(text: str, paths: tuple[Path, ...]) -> str:
    """The JSON text with `null` for the values at the paths: of each member of that name, in each item of a list.

    ValueError for a text that is not JSON: what cannot be read cannot be redacted.
    """
    _refuse(text)
    try:
        for path in paths:
            for start, end in reversed(_outermost(_parts(text, _skip(text, 0), path, each=True))):
                text = f"{text[:start]}null{text[end:]}"
    except RecursionError:
        raise ValueError("the payload is nested too deeply") from None
    return text


def selected(text: str, path: Path) -> str | None:
    """The text of the value at the path, the last of that name; None where there is none. ValueError as above."""
    _refuse(text)
    found = [*_parts(text, _skip(text, 0), path, each=False)]
    return text[slice(*found[-1])] if found else None


def _refuse(text: str) -> None:
    if parsed(text) is None and text.strip(" \t\r\n") != "null":
        raise ValueError("the payload is not JSON")


def _outermost(parts: Iterator[Part]) -> list[Part]:
    """In order, without those inside others."""
    kept: list[Part] = []
    for part in sorted(parts):
        if not kept or part[0] >= kept[-1][1]:
            kept.append(part)
    return kept


def _parts(text: str, start: int, path: Path, *, each: bool) -> Iterator[Part]:
    """The values at `path` of the one at `start`. `each`: the path leads through all items of a list."""
    if not path:
        yield start, _DECODER.raw_decode(text, start)[1]
    elif text[start] == "{":
        for name, at in _members(text, start):
            if name == path[0]:
                yield from _parts(text, at, path[1:], each=each)
    elif text[start] == "[":
        for number, at in enumerate(_items(text, start)):
            if path[0] == str(number):
                yield from _parts(text, at, path[1:], each=each)
            if each:
                yield from _parts(text, at, path, each=each)


def _members(text: str, at: int) -> Iterator[tuple[str, int]]:
    """The names of an object's members, and where their values begin."""
    at = _skip(text, at + 1)
    while text[at] != "}":
        name, at = _DECODER.raw_decode(text, at)
        at = _skip(text, _skip(text, at) + 1)
        yield name, at
        at = _next(text, at)


def _items(text: str, at: int) -> Iterator[int]:
    """Where the items of a list begin."""
    at = _skip(text, at + 1)
    while text[at] != "]":
        yield at
        at = _next(text, at)


def _next(text: str, at: int) -> int:
    """Where the next one begins, or the end is, after the value at `at`."""
    at = _skip(text, _DECODER.raw_decode(text, at)[1])
    return _skip(text, at + 1) if text[at] == "," else at


def _skip(text: str, at: int) -> int:
    match = _BLANKS.match(text, at)
    return match.end() if match else at
