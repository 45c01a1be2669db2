"""Payloads with fields redacted, and parts of payloads. What stays is as it was written, to the digit and the blank.

Each part of a text is read once or twice, however it is nested.
"""

import json
import re
from collections.abc import Collection

from walrelay.json_text import DEEPEST, NestedTooDeeply
from walrelay.route.rules.fields import parsed

Path = tuple[str, ...]
Part = tuple[int, int]  # where it begins in the text, and where it ends

_DECODER = json.JSONDecoder(parse_int=str, parse_float=str)
_BLANKS = re.compile(r"[ \t\n\r]*")


def redacted(text: str, paths: Collection[Path]) -> str:
    """The JSON text with `null` for the values at the paths: of each member of that name, in each item of a list.

    ValueError for a text that is not JSON: what cannot be read cannot be redacted.
    """
    _refuse(text)
    found: list[Part] = []
    _search(text, _skip(text, 0), frozenset(paths), found, each=True)
    pieces, at = list[str](), 0
    for start, end in found:  # in the order of the text, and none inside another
        pieces += [text[at:start], "null"]
        at = end
    return "".join([*pieces, text[at:]])


def selected(text: str, path: Path) -> str | None:
    """The text of the value at the path, the last of that name; None where there is none. ValueError as above."""
    _refuse(text)
    found: list[Part] = []
    _search(text, _skip(text, 0), frozenset([path]), found, each=False)
    return text[slice(*found[-1])] if found else None


def _refuse(text: str) -> None:
    try:
        if parsed(text) is None and text.strip(" \t\r\n") != "null":
            raise ValueError("the payload is not JSON")
    except NestedTooDeeply:
        raise ValueError(f"the payload is nested too deeply, in more than {DEEPEST} levels") from None


def _search(text: str, at: int, paths: frozenset[Path], found: list[Part], *, each: bool) -> int:
    """Adds the values at `paths` of the one at `at`, and returns where that one ends. `each`: a path leads through all
    items of a list.
    """
    if not paths or text[at] not in "{[" or () in paths:
        end = _DECODER.raw_decode(text, at)[1]
        if () in paths:
            found.append((at, end))
        return end
    inside, closes = text[at] == "{", "}" if text[at] == "{" else "]"
    number, at = 0, _skip(text, at + 1)
    while text[at] != closes:
        step = str(number)
        if inside:
            step, at = _DECODER.raw_decode(text, at)
            at = _skip(text, _skip(text, at) + 1)
        rest = frozenset(path[1:] for path in paths if path[0] == step)
        at = _skip(text, _search(text, at, rest if inside or not each else rest | paths, found, each=each))
        if text[at] == ",":
            at = _skip(text, at + 1)
        number += 1
    return at + 1


def _skip(text: str, at: int) -> int:
    match = _BLANKS.match(text, at)
    return match.end() if match else at
